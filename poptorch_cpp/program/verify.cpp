// The verifier of program.hpp: indices, types, channels and counts here; memory in replay.cpp.
#include <map>
#include <set>

#include "program/replay.hpp"
#include "program/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using support::str;

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
  throw support::InternalError(str("[program] ", args...));
}

// How often the two ends of a channel, or of a stream, run in one run of a replica.
struct Ends {
  int sender = -1, receiver = -1;
  int64_t sent = 0, received = 0;
  int optional = 0;  // ends that stand in conditionals
  const Type* type = nullptr;
};

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    if (program_.replicas < 1 || program_.micro_batches_per_run < 1) {
      fail("replicas (", program_.replicas, ") and micro-batches (", program_.micro_batches_per_run,
           ") are at least 1.");
    }
    check_unique_names();
    for (const Tensor& tensor : program_.tensors) check_tensor(tensor);
    for (size_t i = 0; i < program_.ipus.size(); ++i) check_ipu(static_cast<int>(i));
    check_channels();
    check_transfers();
  }

 private:
  bool index_ok(int64_t index, size_t size) const {
    return index >= 0 && index < static_cast<int64_t>(size);
  }

  void check_unique_names() const {
    std::set<Symbol> names;
    for (const Stream& stream : program_.streams) {
      if (!names.insert(stream.host.name).second) fail("stream '", stream.host.name, "' is twice.");
    }
    names.clear();
    for (const State& state : program_.states) {
      if (!names.insert(state.slot.name).second) fail("state '", state.slot.name, "' is twice.");
    }
  }

  void check_tensor(const Tensor& tensor) const {
    if (!index_ok(tensor.ipu, program_.ipus.size())) {
      fail("%", tensor.name, " lies on IPU ", tensor.ipu, " of ", program_.ipus.size(), ".");
    }
    if (tensor.offset < 0) fail("%", tensor.name, " has offset ", tensor.offset, ".");
    if (tensor.base == Base::kArena) return;
    const Type* within = base_type(tensor);
    if (!within) fail("%", tensor.name, " names an object that is not declared.");
    if (tensor.offset + tensor.type.bytes() > within->bytes()) {
      fail("%", tensor.name, " : ", tensor.type, " does not fit into ", *within, ".");
    }
    if (tensor.base == Base::kState) {
      const State& state = program_.states[static_cast<size_t>(tensor.index)];
      if (state.ipu != -1 && state.ipu != tensor.ipu) {
        fail("state '", state.slot.name, "' of IPU ", state.ipu, " is used on IPU ", tensor.ipu,
             ".");
      }
    }
  }

  const Type* base_type(const Tensor& tensor) const {
    const auto index = static_cast<size_t>(tensor.index);
    switch (tensor.base) {
      case Base::kState:
        return index_ok(tensor.index, program_.states.size()) ? &program_.states[index].slot.type
                                                              : nullptr;
      case Base::kConstant:
        return index_ok(tensor.index, program_.constants.size()) ? &program_.constants[index].type()
                                                                 : nullptr;
      case Base::kStream:
        return index_ok(tensor.index, program_.streams.size()) ? &program_.streams[index].host.type
                                                               : nullptr;
      case Base::kStash:
        return index_ok(tensor.index, program_.stashes.size()) ? &program_.stashes[index].type
                                                               : nullptr;
      case Base::kArena:
        break;
    }
    return nullptr;
  }

  void check_ipu(int ipu) {
    ipu_ = ipu;
    steps_ = 0;
    check_block(program_.ipus[static_cast<size_t>(ipu)].body, 1, false);
    if (steps_ != 0 && steps_ != program_.micro_batches_per_run) {
      fail("IPU ", ipu, " counts ", steps_, " micro-batches in a run of ",
           program_.micro_batches_per_run, ".");
    }
    const int64_t peak = replay_arena(program_, ipu);
    if (peak != program_.ipus[static_cast<size_t>(ipu)].arena_bytes) {
      fail("the arena of IPU ", ipu, " is said to need ",
           program_.ipus[static_cast<size_t>(ipu)].arena_bytes, " bytes but needs ", peak, ".");
    }
  }

  // `times`: how often the block runs; `optional`: it may be skipped.
  void check_block(const std::vector<Instruction>& block, int64_t times, bool optional) {
    for (const Instruction& instruction : block) {
      check_instruction(instruction, times, optional);
      int64_t inner = times;
      if (instruction.kind == Kind::kLoop) {
        if (instruction.count < 0) fail("a loop runs ", instruction.count, " times.");
        inner *= instruction.count;
        if (instruction.per_micro_batch) steps_ += inner;
        steps_ -= inner * instruction.rewind;
      }
      for (const auto& nested : instruction.blocks) {
        check_block(nested, inner, optional || instruction.kind == Kind::kIf);
      }
    }
  }

  void check_operands(const Instruction& instruction) const {
    auto check = [&](TensorId id) {
      if (id == kNoTensor) return;
      if (!index_ok(id, program_.tensors.size())) fail("tensor ", id, " is not declared.");
      const Tensor& tensor = program_.tensors[static_cast<size_t>(id)];
      if (tensor.ipu != ipu_) {
        fail("IPU ", ipu_, " uses %", tensor.name, " of IPU ", tensor.ipu, ".");
      }
    };
    for (TensorId id : instruction.inputs) check(id);
    for (TensorId id : instruction.outputs) check(id);
    if (!instruction.in_place.empty() &&
        instruction.in_place.size() != instruction.outputs.size()) {
      fail("'", word(instruction), "' has ", instruction.outputs.size(), " results but ",
           instruction.in_place.size(), " in_place entries.");
    }
    for (int operand : instruction.in_place) {
      if (operand >= 0 && (!index_ok(operand, instruction.inputs.size()) ||
                           instruction.inputs[static_cast<size_t>(operand)] == kNoTensor)) {
        fail("'", word(instruction), "' writes in place of operand ", operand,
             ", which it does not have.");
      }
    }
  }

  static std::string_view word(const Instruction& instruction) {
    std::string_view text = row_of(instruction.kind).word;
    return text.empty() ? std::string_view(instruction.op.text()) : text;
  }

  void expect_counts(const Instruction& instruction, size_t inputs, size_t outputs) const {
    if (instruction.inputs.size() != inputs || instruction.outputs.size() != outputs) {
      fail("'", word(instruction), "' has ", instruction.inputs.size(), " operands and ",
           instruction.outputs.size(), " results, not ", inputs, " and ", outputs, ".");
    }
  }

  const Type& type(TensorId id) const {
    if (id == kNoTensor) fail("a moved tensor is absent.");
    return program_.tensors[static_cast<size_t>(id)].type;
  }

  void expect_type(const Instruction& instruction, const Type& moved, const Type& declared) const {
    if (!(moved == declared)) {
      fail("'", word(instruction), "' moves ", moved, " where ", declared, " is declared.");
    }
  }

  void check_instruction(const Instruction& instruction, int64_t times, bool optional) {
    check_operands(instruction);
    const int channel = instruction.channel;
    const size_t slot = static_cast<size_t>(channel);
    switch (instruction.kind) {
      case Kind::kCompute:
        if (instruction.op.empty()) fail("a compute instruction names no op.");
        break;
      case Kind::kSync:
      case Kind::kLoop:
        expect_counts(instruction, 0, 0);
        break;
      case Kind::kIf:
        expect_counts(instruction, 1, 0);
        if (type(instruction.inputs[0]).elements() != 1) fail("a condition is one element.");
        break;
      case Kind::kCopy:
        expect_counts(instruction, 1, 1);
        expect_type(instruction, type(instruction.inputs[0]), type(instruction.outputs[0]));
        break;
      case Kind::kSend:
      case Kind::kReceive:
        check_exchange(instruction, times, optional);
        break;
      case Kind::kStreamIn:
      case Kind::kStreamOut:
        check_stream(instruction, times, optional);
        break;
      case Kind::kOffChipLoad:
      case Kind::kOffChipStore: {
        if (channel < 0) {
          check_state_transfer(instruction);
          break;
        }
        if (!index_ok(channel, program_.remote_buffers.size())) fail("no such remote buffer.");
        const bool load = instruction.kind == Kind::kOffChipLoad;
        const size_t row = instruction.attrs.find("row") ? 0 : 1;
        expect_counts(instruction, (load ? 0 : 1) + row, load ? 1 : 0);
        expect_type(instruction, type(load ? instruction.outputs[0] : instruction.inputs[0]),
                    program_.remote_buffers[slot].type);
        break;
      }
      case Kind::kStash:
      case Kind::kRestore: {
        if (!index_ok(channel, program_.stashes.size())) fail("no such stash.");
        const bool out = instruction.kind == Kind::kRestore;
        expect_counts(instruction, out ? 0 : 1, out ? 1 : 0);
        expect_type(instruction, type(out ? instruction.outputs[0] : instruction.inputs[0]),
                    program_.stashes[slot].type);
        if (program_.stashes[slot].ipu != ipu_) {
          fail("IPU ", ipu_, " uses stash ", channel, " of IPU ", program_.stashes[slot].ipu, ".");
        }
        break;
      }
    }
    const size_t blocks =
        instruction.kind == Kind::kLoop ? 1 : (instruction.kind == Kind::kIf ? 2 : 0);
    if (instruction.blocks.size() != blocks) {
      fail("'", word(instruction), "' has ", instruction.blocks.size(), " blocks.");
    }
  }

  void check_state_transfer(const Instruction& instruction) const {
    expect_counts(instruction, 1, 1);
    expect_type(instruction, type(instruction.inputs[0]), type(instruction.outputs[0]));
    const bool load = instruction.kind == Kind::kOffChipLoad;
    const TensorId home = load ? instruction.inputs[0] : instruction.outputs[0];
    const Tensor& tensor = program_.tensors[static_cast<size_t>(home)];
    const State* state =
        tensor.base == Base::kState ? &program_.states[static_cast<size_t>(tensor.index)] : nullptr;
    if (!state || (state->on_chip && state->shards == 1)) {
      fail("'", word(instruction), "' moves %", tensor.name,
           ", which is no state off the chip or in shards.");
    }
  }

  void check_exchange(const Instruction& instruction, int64_t times, bool optional) {
    const bool send = instruction.kind == Kind::kSend;
    expect_counts(instruction, send ? 1 : 0, send ? 0 : 1);
    if (!index_ok(instruction.peer, program_.ipus.size()) || instruction.peer == ipu_) {
      fail("IPU ", ipu_, " has no peer ", instruction.peer, ".");
    }
    Ends& ends = channels_[instruction.channel];
    const Type& moved = type(send ? instruction.inputs[0] : instruction.outputs[0]);
    if (ends.type) expect_type(instruction, moved, *ends.type);
    ends.type = &moved;
    const int sender = send ? ipu_ : instruction.peer;
    const int receiver = send ? instruction.peer : ipu_;
    if (ends.sender >= 0 && (ends.sender != sender || ends.receiver != receiver)) {
      fail("channel ", instruction.channel, " joins IPUs ", ends.sender, " and ", ends.receiver,
           " but is used between ", sender, " and ", receiver, ".");
    }
    ends.sender = sender;
    ends.receiver = receiver;
    (send ? ends.sent : ends.received) += times;
    ends.optional += optional ? (send ? 1 : -1) : 0;
  }

  void check_stream(const Instruction& instruction, int64_t times, bool optional) {
    if (!index_ok(instruction.channel, program_.streams.size())) fail("no such stream.");
    const Stream& stream = program_.streams[static_cast<size_t>(instruction.channel)];
    const bool in = instruction.kind == Kind::kStreamIn;
    expect_counts(instruction, in ? 0 : 1, in ? 1 : 0);
    if (in != stream.host.to_device) {
      fail("stream '", stream.host.name, "' runs the other way.");
    }
    expect_type(instruction, type(in ? instruction.outputs[0] : instruction.inputs[0]),
                stream.host.type);
    Ends& ends = streams_[instruction.channel];
    if (ends.sender >= 0 && ends.sender != ipu_) {
      fail("stream '", stream.host.name, "' is used by IPUs ", ends.sender, " and ", ipu_, ".");
    }
    ends.sender = ipu_;
    ends.sent += times;
    if (optional) ends.received = 1;  // the count is an upper bound
  }

  void check_channels() const {
    for (const auto& [channel, ends] : channels_) {
      if (ends.sent != ends.received) {
        fail("channel ", channel, " is sent ", ends.sent, " times and received ", ends.received,
             " times.");
      }
      if (ends.optional != 0) fail("channel ", channel, " has one end in a conditional block.");
    }
  }

  void check_transfers() const {
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      const Stream& stream = program_.streams[i];
      auto it = streams_.find(static_cast<int>(i));
      const int64_t count = it == streams_.end() ? 0 : it->second.sent;
      const bool bounded = it != streams_.end() && it->second.received;
      if (bounded ? count < stream.transfers : count != 0 && count != stream.transfers) {
        fail("stream '", stream.host.name, "' makes ", count, " transfers, not ", stream.transfers,
             ".");
      }
      if (stream.keep == Keep::kEveryN &&
          (stream.period < 1 || stream.transfers % stream.period != 0)) {
        fail("stream '", stream.host.name, "' keeps every ", stream.period, "th of ",
             stream.transfers, " transfers.");
      }
      if (stream.group_size < 1 || stream.group_stride < 1 ||
          program_.replicas % (stream.group_size * stream.group_stride) != 0) {
        fail("stream '", stream.host.name, "' has groups of ", stream.group_size, " by ",
             stream.group_stride, " among ", program_.replicas, " replicas.");
      }
    }
  }

  const Program& program_;
  int ipu_ = 0;
  int64_t steps_ = 0;
  std::map<int, Ends> channels_, streams_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace poptorch::program
