// A compiled model on its device, which both front ends run, query and own.
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

// These types are part of the façade's interface.
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

  // Keeps the compilation for equal ones of this process, if kept_programs.hpp takes it.
  void keep(const HostOptions& options) const;

  // Return the types of one run's inputs and outputs, for the replicas of this process only. The
  // batching factors are applied to dimension 0.
  const std::vector<ir::Type>& input_types() const;
  const std::vector<ir::Type>& output_types() const;
  // Return the names of the inputs' and outputs' streams in the program.
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
  // Runs one step. Buffers are dense and row-major, of those types. Calls from several threads are
  // serialised, also with calls that read and write state. The calling thread's watch may stop a
  // run (support::Interrupted), also while it waits for another thread.
  void run(const std::vector<const std::byte*>& inputs, const std::vector<std::byte*>& outputs);
  // Refuses runs until reopen(); state can still be read. UserError while another thread runs.
  void close();
  void reopen();
  // Returns whether a run since the last call was interrupted and wrote only some of its state.
  bool forget_partial_state();

  // Acquires a device. After a fault it begins with the state of the compilation, except for
  // hyper-parameters, which the host has. Attaching may fail too (support::DeviceError).
  void attach();
  // Returns whether a device fault has occurred since. If so, any use of the device or its
  // contents, except hyper-parameters, throws support::DeviceError.
  bool has_failed() const;

  // Returns the state slots, which other calls access by name. On the host a grouped slot has the
  // shape [groups, ...].
  const std::vector<ir::StateSlot>& states() const;
  const ir::StateSlot* find_state(const std::string& name) const;  // null for an unknown name
  ir::Type state_type(const ir::StateSlot& slot) const;
  void read_state(const std::string& name, std::byte* data) const;
  // Reads several slots between two runs.
  void read_states(const std::vector<std::pair<std::string, std::byte*>>& into) const;
  // Returns the slot's groups without a replica in this process, each with the instance of its
  // first replica. Reads leave the bytes of these groups unchanged.
  std::vector<std::pair<int, int>> remote_groups(const std::string& name) const;
  // Returns the instance of each group's first replica. Empty if every instance has a replica of
  // each group, so that each can read the whole slot.
  std::vector<int> owners(const std::string& name) const;
  // The replicas that this process runs: `count` of `all`, from `first` on.
  struct Replicas {
    int first = 0, count = 1, all = 1;
  };
  Replicas replicas() const;
  // Sends row i, of `row_bytes` of state or of a remote buffer, from the instance `owners[i]` to
  // all others. All instances must call it between the same runs. UserError names the instance for
  // which `what` has waited too long.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  void write_states(const std::vector<std::pair<std::string, const std::byte*>>& from);
  void write_state(const std::string& name, const std::byte* data);

  // Access row `entry` of a replica's remote buffer `name`, one of the program's remote_buffers().
  const std::vector<ir::RemoteBuffer>& remote_buffers() const;
  void read_remote(const std::string& name, int replica, int64_t entry, std::byte* data) const;
  void write_remote(const std::string& name, int replica, int64_t entry, const std::byte* data);

  // Returns the text of a form: "traced", "normal", "differentiated", "placed", "program" or
  // "bound" (run by the host; emulator/bound/text.hpp). UserError for another name, and after
  // load() for all but the last two.
  std::string text(const std::string& form, bool locations = false) const;
  // Returns the form's lines that are an op or an instruction, with its id. One that occurs in
  // several places has several lines. Empty if the form is not available.
  std::vector<std::pair<uint64_t, std::string>> op_lines(const std::string& form) const;
  const program::Program& program() const;
  const CompileRecord& compile_record() const;
  // Returns whether the forms before the program are available: not after load(), nor from the
  // cache.
  bool has_forms() const;
  bool has_execution() const;
  // Returns the execution as the front end requested it. UserError after load() of a text.
  const ir::Execution& execution() const;
  Report report() const;
  int ipus() const;  // of one replica
  // Returns, for messages, why the highest IPU is needed; empty if there is one IPU.
  std::string highest_ipu() const;
  // Returns the work of the first `micro_batches` of a run: see timeline.hpp.
  Timeline timeline(int64_t micro_batches) const;

  // Returns the index of the anchor that requested each of the last outputs, and the value's name.
  std::vector<std::pair<int, std::string>> anchored() const;
  // Returns every name that an anchor could have. Repeats parts of a compilation. UserError after
  // load().
  std::vector<std::string> anchor_names() const;
  // Returns when each of a stream's transfers in the last run began and ended, in seconds of the
  // steady clock. Streams are the inputs, then the outputs; transfers are in the order of their
  // bytes.
  std::vector<std::pair<double, double>> transfer_times(size_t stream) const;

  // Return and set the seed and counter of the random numbers.
  std::pair<uint64_t, uint64_t> random_state() const;
  void set_random_state(std::pair<uint64_t, uint64_t> state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::session
