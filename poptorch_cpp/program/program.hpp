// The executable form as data: per-IPU instruction lists over logical tensors, state slots, host
// streams and Streaming Memory. It does not depend on the host: no pointer, layout or instruction
// set. The memory report of the emulated IPU is computed from this form alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/limits.hpp"
#include "ir/slots.hpp"
#include "ir/source_location.hpp"
#include "program/base.hpp"
#include "support/table.hpp"

namespace poptorch::ir {
class Registry;
struct OpDef;
}  // namespace poptorch::ir

namespace poptorch::program {

using ir::Attrs;
using ir::Symbol;
using ir::Type;

// The limits of a program: sums of these fit 64 bits.
constexpr int kMaxIpusInAll = 1 << 16;  // of all replicas
constexpr int64_t kMaxMicroBatches = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 50;  // an offset, or what an IPU needs
constexpr int kMaxChannels = 1 << 20;            // between IPUs of a replica
constexpr int kMaxAhead = 1 << 20;               // micro-batches, in rewinds and offsets

// A logical tensor on one IPU. Two tensors with one address share memory at different times, or
// alias: a result written in place has the address of the operand.
struct Tensor {
  Type type;
  Symbol name;
  int ipu = 0;
  Base base = Base::kArena;
  int32_t index = 0;
  int64_t offset = 0;
};

enum class Pass : uint8_t { kForward, kBackward, kUpdate, kTransfer };

// The temporary data of an instruction, beside its operands and results and only while it runs:
// operands gathered for the matrix units, partial sums, received data.
struct Temporary {
  int64_t bytes = 0;   // on all tiles
  int64_t offset = 0;  // in the arena, from the memory plan
};

struct Instruction {
  enum class Kind : uint8_t {
    kCompute,       // `op` with `attrs` on inputs → outputs
    kCopy,          // inputs[0] → outputs[0] on one IPU
    kSend,          // inputs[0] to IPU `peer` through `channel`; never waits
    kReceive,       // outputs[0] from IPU `peer` through `channel`; waits for the send's turn
    kSync,          // waits for every IPU of the replica; with attr "carries", see ends_cycle()
    kStreamIn,      // next transfer of stream `channel` → outputs[0]
    kStreamOut,     // inputs[0] → next transfer of stream `channel`
    kOffChipLoad,   // row inputs[0] (i32 scalar, or attr "row") of remote buffer `channel` →
                    // outputs[0]; without a channel, inputs[0] is the state that is loaded
    kOffChipStore,  // inputs[0] → row (inputs[1] or attr "row") of remote buffer `channel`; without
                    // a channel, outputs[0] is the state that is stored
    kStash,         // inputs[0] → stash `channel`, slot of the current micro-batch
    kRestore,       // stash `channel`, slot of the current micro-batch → outputs[0]
    kLoop,          // blocks[0], `count` times
    kIf,            // blocks[0] when inputs[0] is true, else blocks[1]
  };
  Kind kind = Kind::kCompute;
  Symbol op = {};
  Attrs attrs = {};
  bool view = false;        // of kCompute: the row's is_view(); not in the text
  bool collective = false;  // of kCompute: the row's role; not in the text
  // These are of kCompute, from the row, for the cost model; not in the text.
  bool elementwise = false;
  bool indexed = false;               // has operands that are indices
  bool permutes = false;              // moves elements only, and changes their order
  std::vector<TensorId> inputs = {};  // kNoTensor: an absent optional operand
  std::vector<TensorId> outputs = {};
  std::vector<int> in_place = {};  // per output: the input whose memory it is, or -1
  int peer = -1;
  int channel = -1;
  int64_t count = 0;
  // kLoop with an op_id: a `repeat` of the model, whose rounds draw separate numbers. kLoop: every
  // iteration ends with a step of this IPU's micro-batch counter, which is 0 when a run starts.
  // Random keys and stash slots follow the counter.
  bool per_micro_batch = false;
  // kLoop: every iteration ends by setting the counter back by this much, the distance that the
  // stages of a pipeline run ahead of each other in a round.
  int rewind = 0;
  // This instruction works on micro-batch (counter + offset): pipelines skew their stages.
  int micro_batch_offset = 0;
  std::vector<std::vector<Instruction>> blocks = {};

  // These fields record provenance and cost.
  uint64_t op_id = 0;
  int stage = -1;
  int phase = -1;
  Pass pass = Pass::kForward;
  Symbol block = {};
  Symbol scope = {};
  ir::Location location = {};
  int64_t cycles = 0;
  int64_t steps = 1;  // of kCompute, one after the other, which `cycles` include
  Temporary temporary = {};
};

// A slot of the session's state. Its host buffer has groups × type elements when it is grouped.
struct State {
  ir::StateSlot slot;
  int ipu = 0;         // -1: every IPU that names it has a copy, which the program does not write
  int64_t offset = 0;  // in the IPU's memory, before the arena
  // False: the slot is in Streaming Memory. Only loads and stores name a slot that is there or
  // sharded.
  bool on_chip = true;
  int shards = 1;  // a replica keeps one of this many parts: a load gathers all
};

// The transfers of a stream that the host keeps in one run.
enum class Keep : uint8_t {
  kAll,
  kEveryN,  // transfers period-1, 2·period-1, ...
  kFinal,   // the last
  kSum,     // the sum, element by element, in the order of transfers
};

// A host stream of a replica makes `transfers` transfers in a run, and counts them from 0; only one
// IPU uses it. The host's buffer of one run is dense: transfers × groups × type, the group of
// replicas varying fastest. Into the device, transfer t of group g reads element t·groups + g. Out
// of it, the k-th kept transfer of replica r is element k·replicas + r.
struct Stream {
  ir::HostStream host;
  int64_t transfers = 1;
  Keep keep = Keep::kAll;  // out of the device only
  int64_t period = 1;      // of kEveryN
  // Replicas that read the same transfers form groups of `group_size`, `group_stride` apart.
  int group_size = 1;
  int group_stride = 1;
  // The number and name of the anchor whose value the stream returns; -1: not an anchor's stream.
  int anchor = -1;
  Symbol anchored = {};

  int64_t kept() const;  // transfers of one replica that the host's buffer holds
  // Returns the type of the host's buffer: kept() × groups on dimension 0; a scalar stays one when
  // that is 1.
  Type host_type(int replicas) const;
  // Returns the same for `rows` replicas or groups of them.
  Type host_type_of(int rows) const;
};

struct Stash {
  Type type;
  int ipu = 0;
  int depth = 1;
};

struct IpuProgram {
  std::vector<Instruction> body;
  int64_t arena_bytes = 0;  // peak of the memory plan
  int64_t state_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t code_bytes = 0;   // an estimate
  int64_t tile_memory = 0;  // bytes of a tile for temporary data of products; 0: the default
};

struct Program {
  std::string device = "ipu2";  // a profile of target/
  int replicas = 1;
  int link_domain = ir::kLinkDomain;  // IPUs that IPU-Links join
  int io_tiles = 0;                   // of each IPU
  uint64_t random_seed = 0;
  support::Table<TensorId, Tensor> tensors;
  support::Table<int32_t, State> states;
  support::Table<int32_t, ir::Literal> constants;
  support::Table<int32_t, Stream> streams;
  support::Table<int32_t, ir::RemoteBuffer> remote_buffers;
  support::Table<int32_t, Stash> stashes;
  support::Table<int, IpuProgram> ipus;
  // Micro-batches that one run processes (device iterations × gradient accumulation).
  int64_t micro_batches_per_run = 1;
};

// Returns the bytes of an IPU's stashes, beside its arena and state.
int64_t stash_bytes(const Program& program, int ipu);

// Counts the instructions of all IPUs, including those in loops and branches.
int64_t instruction_count(const Program& program);

// Sets the fields of a kCompute that follow from its op's row: whether it is a view or a
// collective. It also adds optional operands that are left out at the end, as kNoTensor: kernels
// find results after all operands of the row.
void take_row(Instruction& instruction, const ir::OpDef& def);

// Returns whether a sync ends a cycle of a pipeline: in the cost model, all transfers between IPUs
// of a cycle take place at its end. The emulator does not wait there, since channels keep the
// order.
bool ends_cycle(const Instruction& instruction);
// Returns whether the end of a cycle also carries the transfers with the host.
bool carries_host(const Instruction& end_of_cycle);
// Returns whether an attribute of a sync makes it the end of a cycle.
bool is_end_of_cycle(Symbol key, const ir::Attr& value);
// Returns the end of a cycle.
Instruction end_of_cycle(bool carries_host);

// Returns " (model.py:42, in module 'encoder')" for the op that an instruction stems from, as far
// as known.
std::string place_of(const Program& program, uint64_t op_id);

struct PrintOptions {
  bool locations = false;
  bool seed = true;  // that of the random numbers
};
// Prints the text form; parse(print(p)) prints the same. parse() throws UserError for bad text.
std::string print(const Program& program, const PrintOptions& options = {});
// Returns the line of each instruction, without the contents of its blocks, with its op's id.
std::vector<std::pair<uint64_t, std::string>> op_lines(const Program& program);
Program parse(std::string_view text, const ir::Registry& registry,
              std::string_view origin = "text");

// Throws InternalError unless ids, addresses, channels and loop nests are consistent and, when
// allocations and frees are replayed, no two live tensors of an arena overlap.
void verify(const Program& program);

}  // namespace poptorch::program
