// The verifier of program.hpp. It checks indices, types, channels and counts here, declarations in
// declared.cpp, and memory in replay.cpp.
#include <array>
#include <map>
#include <set>

#include "program/declared.hpp"
#include "program/fail.hpp"
#include "program/replay.hpp"
#include "program/text.hpp"

namespace poptorch::program {
namespace {

using Wide = __int128;

// Counts how often the two ends of a channel, or of a stream, run in one run of a replica.
struct Ends {
  int sender = -1, receiver = -1;
  int64_t sent = 0, received = 0;
  int optional = 0;  // ends that stand in conditionals
  const Type* type = nullptr;
};

// Says how often an instruction runs in one run of a replica.
struct Runs {
  int64_t times = 1;
  bool optional = false;  // it may be skipped
};

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    verify_declared(program_);
    for (size_t i = 0; i < program_.ipus.size(); ++i) check_ipu(static_cast<int>(i));
    check_channels();
    check_transfers();
  }

 private:
  bool index_ok(int64_t index, size_t size) const {
    return index >= 0 && index < static_cast<int64_t>(size);
  }

  void check_ipu(int ipu) {
    ipu_ = ipu;
    steps_ = 0;
    check_block(program_.ipus[ipu].body, {});
    if (steps_ != 0 && steps_ != program_.micro_batches_per_run) {
      fail("IPU ", ipu, " counts ", static_cast<double>(steps_), " micro-batches in a run of ",
           program_.micro_batches_per_run, ".");
    }
    const int64_t peak = replay_arena(program_, ipu);
    if (peak != program_.ipus[ipu].arena_bytes) {
      fail("the arena of IPU ", ipu, " is said to need ", program_.ipus[ipu].arena_bytes,
           " bytes but needs ", peak, ".");
    }
  }

  void check_block(const std::vector<Instruction>& block, const Runs& runs) {
    for (const Instruction& instruction : block) {
      check_instruction(instruction, runs);
      Runs inner = runs;
      if (instruction.kind == Kind::kLoop) inner.times = rounds_of(instruction, runs.times);
      inner.optional |= instruction.kind == Kind::kIf;
      for (const auto& nested : instruction.blocks) check_block(nested, inner);
    }
  }

  // Returns how often the body of a loop runs if the loop runs `times` times.
  int64_t rounds_of(const Instruction& loop, int64_t times) {
    if (loop.count < 0 || (times > 0 && loop.count > ir::kMaxRounds / times)) {
      fail("a loop runs ", loop.count, " times, ", times, " times in a run.");
    }
    if (loop.rewind < 0 || loop.rewind > kMaxAhead) fail("a loop rewinds by ", loop.rewind, ".");
    const int64_t rounds = times * loop.count;
    if (loop.per_micro_batch) steps_ += rounds;
    steps_ -= Wide{rounds} * loop.rewind;
    return rounds;
  }

  void check_operands(const Instruction& instruction) const {
    auto check = [&](TensorId id) {
      if (id == kNoTensor) return;
      if (!index_ok(id, program_.tensors.size())) fail("tensor ", id, " is not declared.");
      const Tensor& tensor = program_.tensors[id];
      if (tensor.ipu != ipu_) {
        fail("IPU ", ipu_, " uses %", tensor.name, " of IPU ", tensor.ipu, ".");
      }
    };
    for (TensorId id : instruction.inputs) check(id);
    for (TensorId id : instruction.outputs) {
      check(id);
      if (id == kNoTensor) fail("'", word(instruction), "' has an absent result.");
      const Tensor& tensor = program_.tensors[id];
      if (tensor.base == Base::kConstant) {
        fail("'", word(instruction), "' writes %", tensor.name, ", a constant.");
      }
    }
    if (!instruction.in_place.empty() &&
        instruction.in_place.size() != instruction.outputs.size()) {
      fail("'", word(instruction), "' has ", instruction.outputs.size(), " results but ",
           instruction.in_place.size(), " in_place entries.");
    }
    for (int operand : instruction.in_place) {
      if (operand >= 0 && (!index_ok(operand, instruction.inputs.size()) ||
                           instruction.inputs[operand] == kNoTensor)) {
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
    return program_.tensors[id].type;
  }

  void expect_type(const Instruction& instruction, const Type& moved, const Type& declared) const {
    if (!(moved == declared)) {
      fail("'", word(instruction), "' moves ", moved, " where ", declared, " is declared.");
    }
  }

  // Checks what is specific to some instructions: a row, transfer marks, groups of replicas,
  // temporary data.
  void check_attrs(const Instruction& instruction) const {
    if (std::abs(int64_t{instruction.micro_batch_offset}) > kMaxAhead) {
      fail("'", word(instruction), "' is ", instruction.micro_batch_offset,
           " micro-batches ahead.");
    }
    if (instruction.steps < 1) fail("'", word(instruction), "' has ", instruction.steps, " steps.");
    const auto [bytes, offset] = instruction.temporary;
    if (bytes < 0 || bytes > kMaxBytes || offset < 0 || offset > kMaxBytes) {
      fail("'", word(instruction), "' has ", bytes, " bytes of temporary data at ", offset, ".");
    }
    if (instruction.kind == Kind::kCompute) return check_collective(instruction);
    for (const auto& [key, value] : instruction.attrs) {
      const bool fits = (key == "row" && std::holds_alternative<int64_t>(value)) ||
                        (key == "overlap" && std::holds_alternative<std::string>(value)) ||
                        (key == "io_tiles" && std::holds_alternative<bool>(value)) ||
                        (instruction.kind == Kind::kSync && is_end_of_cycle(key, value));
      if (!fits) {
        fail("'", word(instruction), "' has the attribute ", key, "=", ir::attr_text(value), ".");
      }
    }
  }

  void check_collective(const Instruction& instruction) const {
    auto number = [&](std::string_view name, int64_t otherwise) {
      const ir::Attr* attr = instruction.attrs.find(name);
      const auto* value = attr ? std::get_if<int64_t>(attr) : nullptr;
      return value ? *value : otherwise;
    };
    const int64_t size = number("group_size", 0), stride = number("group_stride", 1);
    if (size == 0) return;
    if (size < 1 || stride < 1 || size > ir::kMaxReplicas || stride > ir::kMaxReplicas ||
        program_.replicas % (size * stride) != 0) {
      fail("'", word(instruction), "' has groups of ", size, " by ", stride, " among ",
           program_.replicas, " replicas.");
    }
  }

  // Checks the row of a remote buffer that has `entries` rows.
  void check_row(const Instruction& instruction, size_t operand, int64_t entries) const {
    if (const ir::Attr* fixed = instruction.attrs.find("row")) {
      const int64_t row = std::get<int64_t>(*fixed);
      if (!index_ok(row, static_cast<size_t>(entries))) {
        fail("'", word(instruction), "' names row ", row, " of ", entries, ".");
      }
    } else if (const Type& row = type(instruction.inputs[operand]);
               row.dtype != ir::DType::kI32 || row.elements() != 1) {
      fail("'", word(instruction), "' takes its row from ", row, ", not from one i32.");
    }
  }

  // Says what an instruction of a kind must have.
  struct KindCheck {
    Kind kind;
    int inputs, outputs;  // their numbers; kAny: `check` counts them
    size_t blocks;
    void (Verifier::*check)(const Instruction&, const Runs&);  // nullptr: nothing more
  };
  static constexpr int kAny = -1;

  static const KindCheck& check_of(Kind kind) {
    using V = Verifier;
    static constexpr std::array<KindCheck, kKindRows.size()> kChecks = {
        {{Kind::kCompute, kAny, kAny, 0, &V::check_compute},
         {Kind::kCopy, 1, 1, 0, &V::check_copy},
         {Kind::kSend, 1, 0, 0, &V::check_exchange},
         {Kind::kReceive, 0, 1, 0, &V::check_exchange},
         {Kind::kSync, 0, 0, 0, nullptr},
         {Kind::kStreamIn, 0, 1, 0, &V::check_stream},
         {Kind::kStreamOut, 1, 0, 0, &V::check_stream},
         {Kind::kOffChipLoad, kAny, kAny, 0, &V::check_off_chip},
         {Kind::kOffChipStore, kAny, kAny, 0, &V::check_off_chip},
         {Kind::kStash, 1, 0, 0, &V::check_stash},
         {Kind::kRestore, 0, 1, 0, &V::check_stash},
         {Kind::kLoop, 0, 0, 1, nullptr},
         {Kind::kIf, 1, 0, 2, &V::check_condition}}};
    return kChecks[static_cast<size_t>(kind)];
  }

  void check_instruction(const Instruction& instruction, const Runs& runs) {
    check_operands(instruction);
    check_attrs(instruction);
    const KindCheck& row = check_of(instruction.kind);
    if (row.inputs != kAny) {
      expect_counts(instruction, static_cast<size_t>(row.inputs), static_cast<size_t>(row.outputs));
    }
    if (row.check) (this->*row.check)(instruction, runs);
    if (instruction.blocks.size() != row.blocks) {
      fail("'", word(instruction), "' has ", instruction.blocks.size(), " blocks.");
    }
  }

  void check_compute(const Instruction& instruction, const Runs& /*runs*/) {
    if (instruction.op.empty()) fail("a compute instruction names no op.");
  }

  void check_condition(const Instruction& instruction, const Runs& /*runs*/) {
    if (type(instruction.inputs[0]).elements() != 1) fail("a condition is one element.");
  }

  void check_copy(const Instruction& instruction, const Runs& /*runs*/) {
    expect_type(instruction, type(instruction.inputs[0]), type(instruction.outputs[0]));
  }

  // Returns the type of the tensor that an instruction moves out of this IPU or into it.
  const Type& moved_type(const Instruction& instruction, bool out) const {
    return type(out ? instruction.inputs[0] : instruction.outputs[0]);
  }

  void check_off_chip(const Instruction& instruction, const Runs& /*runs*/) {
    if (instruction.channel < 0) return check_state_transfer(instruction);
    if (!index_ok(instruction.channel, program_.remote_buffers.size())) {
      fail("no such remote buffer.");
    }
    const auto& buffer = program_.remote_buffers[instruction.channel];
    const bool load = instruction.kind == Kind::kOffChipLoad;
    const size_t row = instruction.attrs.find("row") ? 0 : 1;
    expect_counts(instruction, (load ? 0 : 1) + row, load ? 1 : 0);
    expect_type(instruction, moved_type(instruction, !load), buffer.type);
    check_row(instruction, load ? 0 : 1, buffer.entries);
  }

  void check_stash(const Instruction& instruction, const Runs& /*runs*/) {
    if (!index_ok(instruction.channel, program_.stashes.size())) fail("no such stash.");
    const Stash& stash = program_.stashes[instruction.channel];
    const bool keeps = instruction.kind == Kind::kStash;
    expect_type(instruction, moved_type(instruction, keeps), stash.type);
    if (stash.ipu != ipu_) {
      fail("IPU ", ipu_, " uses stash ", instruction.channel, " of IPU ", stash.ipu, ".");
    }
  }

  void check_state_transfer(const Instruction& instruction) const {
    expect_counts(instruction, 1, 1);
    expect_type(instruction, type(instruction.inputs[0]), type(instruction.outputs[0]));
    const bool load = instruction.kind == Kind::kOffChipLoad;
    const TensorId home = load ? instruction.inputs[0] : instruction.outputs[0];
    const Tensor& tensor = program_.tensors[home];
    const State* state = tensor.base == Base::kState ? &program_.states[tensor.index] : nullptr;
    if (!state || (state->on_chip && state->shards == 1)) {
      fail("'", word(instruction), "' moves %", tensor.name,
           ", which is not state that is off the chip or in shards.");
    }
  }

  void check_exchange(const Instruction& instruction, const Runs& runs) {
    const bool send = instruction.kind == Kind::kSend;
    if (!index_ok(instruction.peer, program_.ipus.size()) || instruction.peer == ipu_) {
      fail("IPU ", ipu_, " has no peer ", instruction.peer, ".");
    }
    if (!index_ok(instruction.channel, kMaxChannels)) {
      fail("there is no channel ", instruction.channel, ".");
    }
    Ends& ends = channels_[instruction.channel];
    const Type& moved = moved_type(instruction, send);
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
    (send ? ends.sent : ends.received) += runs.times;
    ends.optional += runs.optional ? (send ? 1 : -1) : 0;
  }

  void check_stream(const Instruction& instruction, const Runs& runs) {
    if (!index_ok(instruction.channel, program_.streams.size())) fail("no such stream.");
    const Stream& stream = program_.streams[instruction.channel];
    const bool in = instruction.kind == Kind::kStreamIn;
    if (in != stream.host.to_device) {
      fail("stream '", stream.host.name, "' runs the other way.");
    }
    expect_type(instruction, moved_type(instruction, !in), stream.host.type);
    Ends& ends = streams_[instruction.channel];
    if (ends.sender >= 0 && ends.sender != ipu_) {
      fail("stream '", stream.host.name, "' is used by IPUs ", ends.sender, " and ", ipu_, ".");
    }
    ends.sender = ipu_;
    ends.sent += runs.times;
    if (runs.optional) ends.received = 1;  // the count is an upper bound
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
    }
  }

  const Program& program_;
  int ipu_ = 0;
  Wide steps_ = 0;  // of the micro-batch counter
  std::map<int, Ends> channels_, streams_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace poptorch::program
