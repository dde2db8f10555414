// The executable form as data: per-IPU instruction lists over logical tensors, state slots, host
// streams and Streaming Memory. Nothing here knows the host: no pointer, layout or instruction set.
// The emulated IPU's memory account comes from this form alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::program {

using ir::Attrs;
using ir::Symbol;
using ir::Type;

// What an address is relative to.
enum class Base : uint8_t {
  kArena,     // the IPU's arena; `offset` from the memory plan
  kState,     // state slot `index` of Program::states
  kConstant,  // literal `index` of Program::constants
  kStream,    // staging buffer of stream `index`
  kStash,     // stash `index`: slot (micro-batch modulo depth) of Program::stashes
};

using TensorId = int32_t;
constexpr TensorId kNoTensor = -1;

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

struct Instruction {
  enum class Kind : uint8_t {
    kCompute,       // `op` with `attrs` on inputs → outputs
    kCopy,          // inputs[0] → outputs[0] on one IPU
    kSend,          // inputs[0] to IPU `peer` through `channel`
    kReceive,       // outputs[0] from IPU `peer` through `channel`
    kSync,          // waits for every IPU of the replica
    kStreamIn,      // next transfer of stream `channel` → outputs[0]
    kStreamOut,     // inputs[0] → next transfer of stream `channel`
    kOffChipLoad,   // row inputs[0] (i32 scalar, or attr "row") of remote buffer `channel` → outputs[0]
    kOffChipStore,  // inputs[0] → row (inputs[1] or attr "row") of remote buffer `channel`
    kStash,         // inputs[0] → stash `channel`, slot of the current micro-batch
    kRestore,       // stash `channel`, slot of the current micro-batch → outputs[0]
    kLoop,          // blocks[0], `count` times
    kIf,            // blocks[0] when inputs[0] is true, else blocks[1]
  };
  Kind kind = Kind::kCompute;
  Symbol op;
  Attrs attrs;
  std::vector<TensorId> inputs;  // kNoTensor: an absent optional operand
  std::vector<TensorId> outputs;
  std::vector<int> in_place;  // per output: the input whose memory it is, or -1
  int peer = -1;
  int channel = -1;
  int64_t count = 0;
  // kLoop: each iteration is a new micro-batch (random keys, streams, stash slots follow it).
  bool per_micro_batch = false;
  // This instruction works on micro-batch (current + offset): pipelines skew their stages.
  int micro_batch_offset = 0;
  std::vector<std::vector<Instruction>> blocks;

  // Provenance and account.
  uint64_t op_id = 0;
  int stage = -1;
  int phase = -1;
  Pass pass = Pass::kForward;
  Symbol scope;
  ir::Location location;
  int64_t cycles = 0;
};

struct State {
  ir::StateSlot slot;
  int ipu = 0;
  int64_t offset = 0;  // in the IPU's memory, before the arena
  bool on_chip = true;
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
  int64_t code_bytes = 0;   // an estimate
};

struct Program {
  int replicas = 1;
  std::vector<Tensor> tensors;
  std::vector<State> states;
  std::vector<ir::Literal> constants;
  std::vector<ir::HostStream> streams;
  std::vector<ir::RemoteBuffer> remote_buffers;
  std::vector<Stash> stashes;
  std::vector<IpuProgram> ipus;
  // Micro-batches that one run processes (device iterations × gradient accumulation).
  int64_t micro_batches_per_run = 1;
};

// The text form; parse(print(p)) prints the same. UserError for bad text.
std::string print(const Program& program, bool locations = false);
Program parse(std::string_view text, const ir::Registry& registry,
              std::string_view origin = "text");

// InternalError unless ids, addresses, channels and loop nests are consistent and, replaying
// allocations and frees, no two live tensors of an arena overlap.
void verify(const Program& program);

}  // namespace poptorch::program
