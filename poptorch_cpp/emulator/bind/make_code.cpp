// make_code flattens nodes into a list of steps with jumps.
#include <algorithm>

#include "emulator/bind/plan.hpp"
#include "emulator/bound/code.hpp"
#include "emulator/providers/fallback.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using Kind = Instruction::Kind;
using support::str;

// Shorter kernels run on the thread that reaches them: waking other threads takes about this long.
constexpr int64_t kInlineNs = 6000;
constexpr int64_t kInlineBytes = 64 << 10;  // moved in about that time

bool goes_off_chip(const std::vector<Instruction>& block) {
  return std::any_of(block.begin(), block.end(), [](const Instruction& step) {
    return step.kind == Kind::kOffChipLoad || step.kind == Kind::kOffChipStore ||
           std::any_of(step.blocks.begin(), step.blocks.end(), goes_off_chip);
  });
}

// Returns whether IPUs share off-chip memory. Channels are ordered without syncs, so that without
// such memory a sync matters only to the cost model.
bool share_memory(const program::Program& program) {
  return std::any_of(program.ipus.begin(), program.ipus.end(),
                     [](const auto& ipu) { return goes_off_chip(ipu.body); });
}

class Emitting {
 public:
  Emitting(const Plan& plan, Code& code, CodeRegions& regions, bool meets)
      : plan_(plan), code_(code), regions_(regions), meets_(meets) {}

  void run(const std::vector<Node>& body) {
    ipu_ = &code_.ipus.emplace_back();
    emit_block(body);
    add(Step::Kind::kEnd, "end");
    for (Step& step : ipu_->steps) step.lasts |= step.bytes >= kInlineBytes;
  }

 private:
  Step& add(Step::Kind kind, std::string text) {
    Step step;
    step.kind = kind;
    step.buffers = static_cast<uint32_t>(ipu_->addresses.size());
    ipu_->steps.push_back(step);
    ipu_->texts.push_back(std::move(text));
    return ipu_->steps.back();
  }

  void add_buffer(ValueId id) {
    if (id == kNoValue) {
      ipu_->addresses.push_back({});
      return;
    }
    const Storage& storage = plan_.storage_of(id);
    const int64_t own = storage.base == Base::kArena ? storage.offset : 0;
    ipu_->addresses.push_back({plan_.value(id).storage, own + plan_.value(id).offset});
  }

  int32_t here() const { return static_cast<int32_t>(ipu_->steps.size()); }

  void emit_block(const std::vector<Node>& block) {
    for (const Node& node : block) {
      support::check_interrupt();
      emit(node);
    }
  }

  void emit(const Node& node) {
    if (node.kernel) {
      emit_kernel(node);
    } else if (node.instruction->kind == Kind::kLoop) {
      emit_loop(node);
    } else if (node.instruction->kind == Kind::kIf) {
      emit_if(node);
    } else if (node.instruction->kind == Kind::kCompute) {
      emit_moved(node);
    } else {
      emit_transfer(node);
    }
  }

  void emit_kernel(const Node& node) {
    Step& step = add(Step::Kind::kKernel, kernel_text(node));
    step.kernel = node.kernel.get();
    int64_t tasks = 0;
    for (int phase = 0; phase < node.kernel->phases(); ++phase) tasks += node.kernel->tasks(phase);
    const int64_t ns = node.kernel->estimated_ns();
    step.inline_only = tasks == node.kernel->phases() || ns < kInlineNs;
    step.lasts = ns == 0 || ns >= kInlineNs;  // 0: unknown
    const Instruction* origin = node.instruction;
    if (!origin && node.chain) origin = node.chain->ops.front().instruction;
    if (origin) {  // a reorder has none
      step.op_id = origin->op_id;
      step.region = regions_.of(origin->pass, origin->scope);
      step.micro_batch_offset = origin->micro_batch_offset;
    }
    if (node.chain) note_fused(*node.chain, step.op_id);
    if (node.provider == Provider::kReference && !plan_.options.reference_only) {
      step.reference = reference_op(node.def->name);
    }
    for (ValueId id : node.buffers) add_buffer(id);
    if (node.prepared) step.prepared = ipu_->prepared++;
    step.workspace = static_cast<uint32_t>(ipu_->addresses.size());
    add_buffer(node.workspace);
    code_.scratch_bytes = std::max(code_.scratch_bytes, node.kernel->scratch_bytes());
    code_.kernels.push_back(node.kernel);
  }

  int32_t reference_op(const std::string& name) {
    auto& ops = code_.reference_ops;
    const auto found = std::find(ops.begin(), ops.end(), name);
    const auto at = static_cast<int32_t>(found - ops.begin());
    if (found == ops.end()) ops.push_back(name);
    return at;
  }

  std::string value_text(ValueId id) const {
    if (id == kNoValue) return "_";
    const Layout& layout = plan_.storage_of(id).layout;
    static constexpr const char* kKinds[] = {"", ":channels_last"};
    return str("%", plan_.value(id).name, kKinds[static_cast<size_t>(layout.kind)]);
  }

  std::string values_text(const std::vector<ValueId>& ids) const {
    std::vector<std::string> texts;
    for (ValueId id : ids) texts.push_back(value_text(id));
    return support::join(texts, ", ");
  }

  std::string chain_text(const Chain& chain) const {
    std::vector<std::string> ops;
    for (const ChainOp& op : chain.ops) ops.push_back(op.def->name);
    return str(values_text(chain.outputs), " = [", support::join(ops, " "), "](",
               values_text(chain.inputs), ")");
  }

  void note_fused(const Chain& chain, uint64_t first) {
    for (const ChainOp& op : chain.ops) {
      const uint64_t id = op.instruction->op_id;
      if (id != first) ipu_->fused.emplace_back(here() - 1, id);
    }
  }

  std::string kernel_text(const Node& node) const {
    if (node.is_chain()) return node.chain ? chain_text(*node.chain) : reorder_text(node);
    std::string text = node.def->name;
    if (!node.outputs.empty()) text = values_text(node.outputs) + " = " + text;
    text += "(" + values_text(node.inputs) + ")";
    if (node.chain) text += "; " + chain_text(*node.chain);
    static constexpr const char* kProviders[] = {"", " (reference)", " (bookkeeping)",
                                                 " (foreign)"};
    return text + kProviders[static_cast<size_t>(node.provider)];
  }

  std::string reorder_text(const Node& node) const {
    return str(values_text(node.outputs), " = reorder(", values_text(node.inputs), ")");
  }

  void emit_loop(const Node& node) {
    const Instruction& loop = *node.instruction;
    const int32_t counter = ipu_->loops++;
    const int32_t begin = here();
    Step& first = add(Step::Kind::kLoopBegin, str("loop(", loop.count, ")"));
    first.index = counter;
    first.count = loop.count;
    first.is_repeat = loop.op_id != 0;
    emit_block(node.blocks[0]);
    Step& last = add(Step::Kind::kLoopEnd, "end of loop");
    last.index = counter;
    last.target = begin + 1;
    last.count = loop.count;
    last.per_micro_batch = loop.per_micro_batch;
    last.is_repeat = loop.op_id != 0;
    last.rewind = loop.rewind;
    ipu_->steps[static_cast<size_t>(begin)].target = here();
  }

  void emit_if(const Node& node) {
    const int32_t branch = here();
    Step& test = add(Step::Kind::kBranch, "if(" + value_text(node.inputs[0]) + ")");
    test.bytes = ir::size_of(plan_.value(node.inputs[0]).type.dtype);
    add_buffer(node.inputs[0]);
    emit_block(node.blocks[0]);
    const int32_t jump = here();
    add(Step::Kind::kJump, "else");
    ipu_->steps[static_cast<size_t>(branch)].target = here();
    emit_block(node.blocks[1]);
    ipu_->steps[static_cast<size_t>(jump)].target = here();
  }

  void emit_moved(const Node& node) {
    if (!node.is_collective()) {
      emit_copy(node);
    } else if (node.begins) {
      code_.collectives[static_cast<size_t>(node.collective)] = collective_spec(plan_, node);
      emit_collective(node, Step::Kind::kBegin, "begin ");
    } else {
      emit_collective(node, Step::Kind::kCollective, str(value_text(node.outputs[0]), " = "));
    }
  }

  void emit_copy(const Node& node) {
    Step& copy = add(Step::Kind::kCopy,
                     str(value_text(node.outputs[0]), " = copy(", value_text(node.inputs[0]), ")"));
    copy.bytes = plan_.value(node.outputs[0]).type.bytes();
    add_buffer(node.inputs[0]);
    add_buffer(node.outputs[0]);
  }

  void emit_collective(const Node& node, Step::Kind kind, const std::string& prefix) {
    const std::string operand = value_text(node.inputs[0]);
    Step& step = add(kind, str(prefix, node.def->name, "(", operand, ")"));
    step.index = node.collective;
    step.op_id = node.instruction->op_id;
    step.region = regions_.of(node.instruction->pass, node.instruction->scope);
    step.bytes = plan_.value(node.inputs[0]).type.bytes();
    add_buffer(node.inputs[0]);
    add_buffer(node.outputs[0]);
  }

  void emit_transfer(const Node& node) {
    const Instruction& instruction = *node.instruction;
    if (instruction.kind == Kind::kSync && !meets_) return;
    static constexpr std::pair<Kind, Step::Kind> kKinds[] = {
        {Kind::kCopy, Step::Kind::kCopy},         {Kind::kSend, Step::Kind::kSend},
        {Kind::kReceive, Step::Kind::kReceive},   {Kind::kSync, Step::Kind::kSync},
        {Kind::kStreamIn, Step::Kind::kStreamIn}, {Kind::kStreamOut, Step::Kind::kStreamOut},
        {Kind::kOffChipLoad, Step::Kind::kLoad},  {Kind::kOffChipStore, Step::Kind::kStore},
        {Kind::kStash, Step::Kind::kStash},       {Kind::kRestore, Step::Kind::kRestore}};
    static constexpr const char* kNames[] = {"copy",       "send", "receive", "sync",  "stream_in",
                                             "stream_out", "load", "store",   "stash", "restore"};
    const bool off_chip =
        instruction.kind == Kind::kOffChipLoad || instruction.kind == Kind::kOffChipStore;
    // Off-chip state is host memory like on-chip state.
    if (instruction.kind == Kind::kCopy || (off_chip && instruction.channel < 0)) {
      emit_copy(node);
      return;
    }
    const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& pair) {
      return pair.first == instruction.kind;
    });
    std::string text = str(kNames[row - std::begin(kKinds)], "(", values_text(node.inputs), ")");
    if (!node.outputs.empty()) text = values_text(node.outputs) + " = " + text;
    Step& step = add(row->second, std::move(text));
    step.index = instruction.channel;
    step.micro_batch_offset = instruction.micro_batch_offset;
    for (ValueId id : node.outputs) add_buffer(id);
    for (ValueId id : node.inputs) add_buffer(id);
    const bool in = !node.outputs.empty();
    if (instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut) {
      step.region = regions_.of_stream(in);
    }
    if (in || !node.inputs.empty()) {
      step.bytes = plan_.value(in ? node.outputs[0] : node.inputs[0]).type.bytes();
    }
    if (const ir::Attr* fixed = instruction.attrs.find("row"))
      step.count = std::get<int64_t>(*fixed);
    step.has_row = off_chip && node.inputs.size() + node.outputs.size() == 2;
    if (instruction.kind == Kind::kSend) note_channel(instruction.channel, step.bytes);
  }

  void note_channel(int channel, int64_t bytes) {
    if (channel >= static_cast<int>(code_.channel_bytes.size())) {
      code_.channel_bytes.resize(static_cast<size_t>(channel) + 1, 0);
    }
    code_.channel_bytes[static_cast<size_t>(channel)] = bytes;
  }

  const Plan& plan_;
  Code& code_;
  CodeRegions& regions_;
  bool meets_;
  IpuCode* ipu_ = nullptr;
};

}  // namespace

Code make_code(const Plan& plan) {
  Code code;
  code.program = &plan.program;
  code.storages = plan.storages;
  code.arena_bytes = plan.arena_bytes;
  code.collectives.resize(static_cast<size_t>(plan.collectives));
  const bool meets = share_memory(plan.program);
  CodeRegions regions;
  for (const auto& body : plan.bodies) Emitting(plan, code, regions, meets).run(body);
  code.regions = regions.take();
  return code;
}

}  // namespace poptorch::emulator
