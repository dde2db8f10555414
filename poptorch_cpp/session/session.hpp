// Compile and run: the one façade that both front ends use.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/share.hpp"
#include "ir/module.hpp"
#include "ir/option_table.hpp"

namespace poptorch::program {
struct Program;
}

namespace poptorch::session {

// What a compilation needs to know beyond the module, which says itself how it is executed.
struct HostOptions {
  int64_t threads = 0;             // 0: POPTORCH_NUM_THREADS, else the number of cores
  std::string memory_limit = "";   // warn, error or off; empty: POPTORCH_MEMORY_LIMIT, else warn
  bool round_ipu_count = false;    // reserve the next power of two of IPUs, the excess idle
  std::string cache_path = "";     // a folder that keeps executables; empty: none are kept
  bool offline = false;            // never run: no memory is taken for it
  bool late_memory_check = false;  // whoever compiles calls check_memory_limit() afterwards
  emulator::Share share = {};      // which replicas run in this process; default: all of them

  std::string early_memory_limit() const { return late_memory_check ? "off" : memory_limit; }
};

const std::vector<ir::OptionRow<HostOptions>>& host_option_rows();

// Called with (steps done, steps in all, phase name) from the compiling thread, often.
using Progress = std::function<void(int, int, const std::string&)>;

// What one IPU of a replica holds, in bytes. Of tensors the figures are exact, of code estimates.
struct MemoryReport {
  int64_t state_bytes = 0, arena_bytes = 0, stash_bytes = 0, code_bytes = 0, capacity_bytes = 0;
  // Of the state: the rest are buffers, hyper-parameters and what alignment takes.
  int64_t weight_bytes = 0, optimiser_bytes = 0, accumulator_bytes = 0, constant_bytes = 0;
  int64_t needed() const { return state_bytes + arena_bytes + stash_bytes + code_bytes; }
};

// What one IPU does in one run, in modelled cycles and in bytes moved. The rest of the run
// it waits.
struct WorkReport {
  int64_t compute_cycles = 0, link_cycles = 0, host_cycles = 0, streaming_cycles = 0;
  int64_t gateway_cycles = 0, idle_cycles = 0;
  int64_t link_bytes = 0;     // sent to other IPUs by IPU-Links
  int64_t gateway_bytes = 0;  // likewise by GW-Links
  int64_t host_bytes = 0, streaming_bytes = 0;
  int64_t overlapped_cycles = 0;  // of the host's and Streaming Memory's: through the IO tiles
};

// A stream of the host's: what its transfers may overlap with, and whether they do.
struct StreamReport {
  std::string name;
  bool to_device = false;
  std::string overlap = "none";  // the loop's name
  bool overlaps = false;
};

struct StageReport {
  int stage = 0, ipu = 0;
  int64_t cycles = 0;               // of one micro-batch, without weight updates
  std::vector<std::string> blocks;  // the user's names, as their forward ops run
};

// Equal ops of one module of one block in one stage, over one run.
struct OpReport {
  int ipu = 0, stage = 0;
  std::string block, module, op;
  int64_t count = 0, cycles = 0;
};

// A part of equal collectives of one module, over one run of one IPU: see collective_cost.hpp.
struct CollectiveReport {
  int ipu = 0;
  std::string module, op, part;
  std::string links;  // "IPU-Links" or "GW-Links"
  int members = 1;
  int64_t count = 0, bytes = 0, cycles = 0;
};

// Of the runs that came to their end, measured on this host in seconds of the steady clock.
struct RunTimes {
  int64_t runs = 0;
  double in_runs = 0, between_runs = 0;
};

struct Report {
  std::vector<MemoryReport> ipus;
  std::vector<WorkReport> work;               // by IPU
  std::vector<StageReport> stages;            // ascending
  std::vector<OpReport> ops;                  // most cycles first
  std::vector<CollectiveReport> collectives;  // by IPU, most cycles first
  std::vector<StreamReport> streams;
  std::string device;
  int replicas = 1;                // of all instances
  int instances = 1;               // processes, each with a device for its replicas
  int64_t idle_ipus = 0;           // reserved by this instance to make a power of two
  int64_t streaming_bytes = 0;     // Streaming Memory of one replica
  int64_t streaming_capacity = 0;  // the share of one replica's IPUs in their IPU-Machines
  double bubbles = 0;              // the share of the IPUs' time in which they wait
  int bottleneck_stage = 0;        // the one with the most cycles a micro-batch
  int64_t cycles_per_run = 0;
  double seconds_per_run = 0;            // modelled: cycles over the device's clock
  std::vector<std::string> generic_ops;  // aten ops that run through the generic kernel
  // By op without a fast kernel here: the share of the time of the runs so far, measured.
  std::vector<std::pair<std::string, double>> reference_kernels;
  RunTimes measured;
};

// What an IPU does for one stage (in a phase) of one micro-batch, forward or backward.
struct StageWork {
  int ipu = 0, stage = 0, phase = -1;
  int64_t micro_batch = 0;  // of a run
  bool backward = false;
  int64_t cycles = 0;
};

// A transfer between two phases, or one with the host that overlaps with computation.
struct Transfer {
  enum class Kind : uint8_t { kIn, kOut, kLoad, kStore };
  int ipu = 0, phase = -1;
  int64_t micro_batch = 0;
  Kind kind = Kind::kIn;
  std::string name = {};
  int64_t bytes = 0, cycles = 0;
  bool io_tiles = false;
};

struct Timeline {
  std::vector<StageWork> work;
  std::vector<Transfer> transfers;
};

// A step of a compilation. Ops of an IR form, or instructions of the program.
struct PassRecord {
  std::string name;
  double seconds = 0;
  int64_t ops_before = 0, ops_after = 0;
};

struct CompileRecord {
  double seconds = 0;   // of the whole, from the traced form
  bool cached = false;  // read from the cache: then the passes have not run
  std::vector<PassRecord> passes;
};

// One compiled model with the device memory that holds its state.
class Executable {
 public:
  virtual ~Executable() = default;

  // Types of one run's inputs and outputs: with the batching factors applied to dimension 0, of the
  // replicas of this process alone.
  virtual const std::vector<ir::Type>& input_types() const = 0;
  virtual const std::vector<ir::Type>& output_types() const = 0;
  // What the program calls them: the streams' names.
  virtual std::vector<std::string> input_names() const = 0;
  virtual std::vector<std::string> output_names() const = 0;
  // One step. Buffers are dense row-major of those types. Calls from several threads are
  // serialised, with those that read and write state. The watch of the calling thread may stop it
  // (support::Interrupted), also while it waits for another.
  virtual void run(const std::vector<const std::byte*>& inputs,
                   const std::vector<std::byte*>& outputs) = 0;
  // From close() on no run begins; state can be read. UserError while another thread runs.
  virtual void close() = 0;
  virtual void reopen() = 0;
  // Whether, since this was last asked, a run did not come to its end and so left some of the state
  // that it writes unwritten.
  virtual bool forget_partial_state() = 0;

  // A device is taken. After a fault it begins with the state of the compilation, but for
  // hyper-parameters, which the host has. A fault may strike (support::DeviceError).
  virtual void attach() = 0;
  // Whether a fault has struck since: whatever the device does or holds, but for hyper-parameters,
  // raises support::DeviceError.
  virtual bool has_failed() const = 0;

  // State slots, by name. On the host a grouped slot is [groups, ...].
  virtual const std::vector<ir::StateSlot>& states() const = 0;
  virtual ir::Type state_type(const ir::StateSlot& slot) const = 0;
  virtual void read_state(const std::string& name, std::byte* data) const = 0;
  // Several, between two runs.
  virtual void read_states(const std::vector<std::pair<std::string, std::byte*>>& into) const = 0;
  // Groups of the slot that have no replica in this process, each with the instance of its first
  // one: reads leave their place as it is.
  virtual std::vector<std::pair<int, int>> far_groups(const std::string& name) const = 0;
  // The instance of each group's first replica; empty where every instance has one of each group,
  // so that each reads all of the slot.
  virtual std::vector<int> owners(const std::string& name) const = 0;
  // Which replicas this process runs: the first, and how many of `all`.
  struct Replicas {
    int first = 0, count = 1, all = 1;
  };
  virtual Replicas replicas() const = 0;
  // Rows of `row_bytes` that instances have, of state or of remote buffers: the row of the instance
  // `owners[i]` goes to all others. Called by all of them, between the same runs. UserError names
  // the instance that `what` waits for in vain.
  virtual void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                        const std::vector<int>& owners) = 0;
  virtual void write_states(const std::vector<std::pair<std::string, const std::byte*>>& from) = 0;
  virtual void write_state(const std::string& name, const std::byte* data) = 0;

  // Row `entry` of the remote buffer `name` of a replica; `remote_buffers` are the program's.
  virtual const std::vector<ir::RemoteBuffer>& remote_buffers() const = 0;
  virtual void read_remote(const std::string& name, int replica, int64_t entry,
                           std::byte* data) const = 0;
  virtual void write_remote(const std::string& name, int replica, int64_t entry,
                            const std::byte* data) = 0;

  // "traced", "normal", "differentiated", "placed", "program" or "bound" (what the host runs; does
  // not parse back); UserError for another name, and after load() for all but the last two.
  virtual std::string text(const std::string& form, bool locations = false) const = 0;
  // The lines of a form that are an op's or an instruction's, with its id; several where it stands
  // in several places. Nothing where the form is not there.
  virtual std::vector<std::pair<uint64_t, std::string>> op_lines(const std::string& form) const = 0;
  virtual const program::Program& program() const = 0;
  virtual const CompileRecord& compile_record() const = 0;
  // Whether the forms before the program are there: not after load(), nor from the cache.
  virtual bool has_forms() const = 0;
  virtual bool has_execution() const = 0;
  // As the front end asked for it. UserError after load() of a text.
  virtual const ir::Execution& execution() const = 0;
  virtual Report report() const = 0;
  virtual int ipus() const = 0;  // of one replica
  // What the highest of them is there for, for messages; nothing where there is one.
  virtual std::string highest_ipu() const = 0;
  // The work of the first `micro_batches` of a run: see timeline.hpp.
  virtual Timeline timeline(int64_t micro_batches) const = 0;

  // Of the last outputs: which anchor asked for each, and the name of the value.
  virtual std::vector<std::pair<int, std::string>> anchored() const = 0;
  // Every name that an anchor could have. Takes parts of a compilation. UserError after load().
  virtual std::vector<std::string> anchor_names() const = 0;
  // Of the last run: when each transfer of a stream began and ended, in seconds of the steady
  // clock. Streams are the inputs, then the outputs; transfers come in the order of their bytes.
  virtual std::vector<std::pair<double, double>> transfer_times(size_t stream) const = 0;

  // Seed and counter of the random numbers.
  virtual std::pair<uint64_t, uint64_t> random_state() const = 0;
  virtual void set_random_state(std::pair<uint64_t, uint64_t> state) = 0;
};

// Takes the traced form and compiles it all the way. `module` is consumed.
std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module,
                                    const HostOptions& options = {}, const Progress& progress = {});

// Runs a program that was printed before: it says all that a run needs but the values of its state,
// which begin as the program says or at 0. UserError for a text that is no program.
std::unique_ptr<Executable> load(std::string_view program, const ir::Registry& registry,
                                 const HostOptions& options = {});

}  // namespace poptorch::session
