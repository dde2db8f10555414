// make_code flattens nodes into a list of steps with jumps.
#include <algorithm>

#include "emulator/bind/plan.hpp"
#include "emulator/bound/code.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using Kind = Instruction::Kind;

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

// Returns whether an IPU of a pipeline only waits for others. A loop over micro-batches is kept
// even if nothing of its body is left, since random numbers and stashes follow its counter.
bool waits_only(const Instruction& loop) {
  const auto& block = loop.blocks[0];
  return !loop.per_micro_batch && std::all_of(block.begin(), block.end(), program::ends_cycle);
}

class CodeEmitter {
 public:
  CodeEmitter(Plan& plan, Code& code, CodeRegions& regions, bool meets)
      : plan_(plan), code_(code), regions_(regions), meets_(meets) {}

  void run(std::vector<Node>& body) {
    ipu_ = &code_.ipus.emplace_back();
    emit_block(body);
    add(Step::Kind::kEnd);
  }

 private:
  Step& add(Step::Kind kind) {
    Step step;
    step.kind = kind;
    step.buffers = static_cast<uint32_t>(ipu_->table.size());
    ipu_->steps.push_back(step);
    return ipu_->steps.back();
  }

  void add_arguments(std::span<const ValueId> ids) {
    ipu_->table.insert(ipu_->table.end(), ids.begin(), ids.end());
  }

  int32_t here() const { return static_cast<int32_t>(ipu_->steps.size()); }

  void emit_block(std::vector<Node>& block) {
    for (Node& node : block) {
      support::check_interrupt();
      std::visit([&](auto& kind) { emit(kind); }, static_cast<AnyNode&>(node));
    }
  }

  // `origin` is nullptr for a reorder; `op` is the name of an op.
  void emit_kernel(KernelCall& call, const Instruction* origin, const std::string& op = "") {
    Step& step = add(Step::Kind::kKernel);
    if (origin) {
      step.op_id = origin->op_id;
      step.region = regions_.of(origin->pass, origin->scope);
      step.micro_batch_offset = origin->micro_batch_offset;
    }
    add_arguments(arguments_of(plan_, plan_.program, call.kernel->spec));
    if (call.prepared) step.prepared = ipu_->prepared++;
    step.workspace = static_cast<uint32_t>(ipu_->table.size());
    ipu_->table.push_back(call.workspace);
    step.index = static_cast<int32_t>(code_.kernels.size());
    code_.kernels.push_back(std::move(*call.kernel));
    call.kernel.reset();
    set_kernel(code_, step, op);
  }

  void emit(OpNode& node) { emit_kernel(node.call, node.instruction, node.def->name); }
  void emit(ChainNode& node) { emit_kernel(node.call, node.chain.ops.front().instruction); }
  void emit(RowsNode& node) {
    const Node& first = node.members.front();
    const auto* op = as<OpNode>(first);
    emit_kernel(node.call, op ? op->instruction : chain_of(first)->ops.front().instruction);
  }
  void emit(ReorderNode& node) { emit_kernel(node.call, nullptr); }

  void emit(LoopNode& node) {
    const Instruction& loop = *node.instruction;
    if (waits_only(loop)) return;
    const int32_t counter = ipu_->loops++;
    const int32_t begin = here();
    Step& first = add(Step::Kind::kLoopBegin);
    first.index = counter;
    first.count = loop.count;
    first.is_repeat = loop.op_id != 0;
    emit_block(node.body);
    Step& last = add(Step::Kind::kLoopEnd);
    last.index = counter;
    last.target = begin + 1;
    last.count = loop.count;
    last.per_micro_batch = loop.per_micro_batch;
    last.is_repeat = loop.op_id != 0;
    last.rewind = loop.rewind;
    ipu_->steps[begin].target = here();
  }

  void emit(BranchNode& node) {
    const int32_t branch = here();
    add(Step::Kind::kBranch);
    add_arguments({&node.condition, 1});
    emit_block(node.taken);
    const int32_t jump = here();
    add(Step::Kind::kJump);
    ipu_->steps[branch].target = here();
    emit_block(node.otherwise);
    ipu_->steps[jump].target = here();
  }

  void emit(const CopyNode& node) {
    add(Step::Kind::kCopy);
    add_arguments({&node.from, 1});
    add_arguments({&node.to, 1});
  }

  void emit(const CollectiveNode& node) {
    if (node.begins) {
      code_.collectives[node.number] = collective_spec(plan_, node);
    }
    Step& step = add(node.begins ? Step::Kind::kBegin : Step::Kind::kCollective);
    step.index = node.number;
    step.op_id = node.instruction->op_id;
    step.region = regions_.of(node.instruction->pass, node.instruction->scope);
    add_arguments({&node.from, 1});
    add_arguments({&node.to, 1});
  }

  void emit(const TransferNode& node) {
    const Instruction& instruction = *node.instruction;
    if (instruction.kind == Kind::kSync && (!meets_ || program::ends_cycle(instruction))) return;
    static constexpr std::pair<Kind, Step::Kind> kKinds[] = {
        {Kind::kSend, Step::Kind::kSend},           {Kind::kReceive, Step::Kind::kReceive},
        {Kind::kSync, Step::Kind::kSync},           {Kind::kStreamIn, Step::Kind::kStreamIn},
        {Kind::kStreamOut, Step::Kind::kStreamOut}, {Kind::kOffChipLoad, Step::Kind::kLoad},
        {Kind::kOffChipStore, Step::Kind::kStore},  {Kind::kStash, Step::Kind::kStash},
        {Kind::kRestore, Step::Kind::kRestore}};
    const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& pair) {
      return pair.first == instruction.kind;
    });
    Step& step = add(row->second);
    step.index = std::max(instruction.channel, 0);
    step.micro_batch_offset = instruction.micro_batch_offset;
    add_arguments(node.outputs);
    add_arguments(node.inputs);
    if (instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut) {
      step.region = regions_.of_stream(!node.outputs.empty());
    }
    if (const ir::Attr* fixed = instruction.attrs.find("row"))
      step.count = std::get<int64_t>(*fixed);
    const bool off_chip =
        instruction.kind == Kind::kOffChipLoad || instruction.kind == Kind::kOffChipStore;
    step.has_row = off_chip && node.inputs.size() + node.outputs.size() == 2;
    if (instruction.kind == Kind::kSend) note_channel(instruction.channel, node.inputs[0]);
  }

  void note_channel(int channel, ValueId sent) {
    auto& bytes = code_.channel_bytes;
    if (channel >= static_cast<int>(bytes.size())) bytes.resize(static_cast<size_t>(channel) + 1);
    bytes[channel] = plan_.value(sent).type.bytes();
  }

  Plan& plan_;
  Code& code_;
  CodeRegions& regions_;
  bool meets_;
  IpuCode* ipu_ = nullptr;
};

}  // namespace

Code make_code(Plan plan) {
  Code code;
  code.program = &plan.program;
  code.registry = &plan.registry;
  code.threads = plan.options.threads;
  code.reference_only = plan.options.reference_only;
  code.collectives.resize(static_cast<size_t>(plan.collectives));
  const bool meets = share_memory(plan.program);
  CodeRegions regions;
  for (auto& body : plan.bodies) CodeEmitter(plan, code, regions, meets).run(body);
  code.regions = regions.take();
  static_cast<ValueTable&>(code) = std::move(plan);
  for (size_t i = 0; i < code.ipus.size(); ++i) {
    code.ipus[i].arena_bytes = plan.arena_bytes[i];
    finish_steps(code, code.ipus[i]);
  }
  return code;
}

}  // namespace poptorch::emulator
