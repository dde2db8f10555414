// A compiled model on its device: what both front ends run, ask and keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "account/figures.hpp"
#include "compile/options.hpp"
#include "ir/module.hpp"

namespace poptorch::program {
struct Program;
}
namespace poptorch::compile {
struct Compiled;
}

namespace poptorch::session {

// What callers of the façade name.
using account::Report;
using account::Timeline;
using compile::CompileRecord;
using compile::HostOptions;
using compile::Progress;

// One compiled model with the device memory that holds its state.
class Executable {
 public:
  // Binds the program to this host.
  Executable(compile::Compiled forms, const ir::Registry& registry, const HostOptions& options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Types of one run's inputs and outputs: with the batching factors applied to dimension 0, of the
  // replicas of this process alone.
  const std::vector<ir::Type>& input_types() const;
  const std::vector<ir::Type>& output_types() const;
  // What the program calls them: the streams' names.
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
  // One step. Buffers are dense row-major of those types. Calls from several threads are
  // serialised, with those that read and write state. The watch of the calling thread may stop it
  // (support::Interrupted), also while it waits for another.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs);
  // From close() on no run begins; state can be read. UserError while another thread runs.
  void close();
  void reopen();
  // Whether, since this was last asked, a run did not come to its end and so left some of the state
  // that it writes unwritten.
  bool forget_partial_state();

  // A device is taken. After a fault it begins with the state of the compilation, but for
  // hyper-parameters, which the host has. A fault may strike (support::DeviceError).
  void attach();
  // Whether a fault has struck since: whatever the device does or holds, but for hyper-parameters,
  // raises support::DeviceError.
  bool has_failed() const;

  // State slots, by name. On the host a grouped slot is [groups, ...].
  const std::vector<ir::StateSlot>& states() const;
  ir::Type state_type(const ir::StateSlot& slot) const;
  void read_state(const std::string& name, std::byte* data) const;
  // Several, between two runs.
  void read_states(const std::vector<std::pair<std::string, std::byte*>>& into) const;
  // Groups of the slot that have no replica in this process, each with the instance of its first
  // one: reads leave their place as it is.
  std::vector<std::pair<int, int>> far_groups(const std::string& name) const;
  // The instance of each group's first replica; empty where every instance has one of each group,
  // so that each reads all of the slot.
  std::vector<int> owners(const std::string& name) const;
  // Which replicas this process runs: the first, and how many of `all`.
  struct Replicas {
    int first = 0, count = 1, all = 1;
  };
  Replicas replicas() const;
  // Rows of `row_bytes` that instances have, of state or of remote buffers: the row of the instance
  // `owners[i]` goes to all others. Called by all of them, between the same runs. UserError names
  // the instance that `what` waits for in vain.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  void write_states(const std::vector<std::pair<std::string, const std::byte*>>& from);
  void write_state(const std::string& name, const std::byte* data);

  // Row `entry` of the remote buffer `name` of a replica; `remote_buffers` are the program's.
  const std::vector<ir::RemoteBuffer>& remote_buffers() const;
  void read_remote(const std::string& name, int replica, int64_t entry, std::byte* data) const;
  void write_remote(const std::string& name, int replica, int64_t entry, const std::byte* data);

  // "traced", "normal", "differentiated", "placed", "program" or "bound" (what the host runs; does
  // not parse back); UserError for another name, and after load() for all but the last two.
  std::string text(const std::string& form, bool locations = false) const;
  // The lines of a form that are an op's or an instruction's, with its id; several where it stands
  // in several places. Nothing where the form is not there.
  std::vector<std::pair<uint64_t, std::string>> op_lines(const std::string& form) const;
  const program::Program& program() const;
  const CompileRecord& compile_record() const;
  // Whether the forms before the program are there: not after load(), nor from the cache.
  bool has_forms() const;
  bool has_execution() const;
  // As the front end asked for it. UserError after load() of a text.
  const ir::Execution& execution() const;
  Report report() const;
  int ipus() const;  // of one replica
  // What the highest of them is there for, for messages; nothing where there is one.
  std::string highest_ipu() const;
  // The work of the first `micro_batches` of a run: see timeline.hpp.
  Timeline timeline(int64_t micro_batches) const;

  // Of the last outputs: which anchor asked for each, and the name of the value.
  std::vector<std::pair<int, std::string>> anchored() const;
  // Every name that an anchor could have. Takes parts of a compilation. UserError after load().
  std::vector<std::string> anchor_names() const;
  // Of the last run: when each transfer of a stream began and ended, in seconds of the steady
  // clock. Streams are the inputs, then the outputs; transfers come in the order of their bytes.
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;

  // Seed and counter of the random numbers.
  std::pair<uint64_t, uint64_t> random_state() const;
  void set_random_state(std::pair<uint64_t, uint64_t> state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::session
