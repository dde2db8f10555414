// choose_kernels binds a kernel for every op, chain and reorder: a tile program for a chain, the
// row's kernel for an op (with its chain as epilogue), else a foreign provider's or the reference
// kernel.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "emulator/bind/kernel_maker.hpp"
#include "emulator/bind/plan.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

// Numbers the registers of a chain.
class ChainWirer {
 public:
  // `produced`: the result of the op whose epilogue the chain is, or kNoValue.
  ChainWirer(const Plan& plan, const Chain& chain, ValueId produced)
      : plan_(plan), chain_(chain), produced_(produced) {}

  ChainSpec run() {
    ChainSpec spec{.sources = chain_.inputs, .outputs = chain_.outputs};
    for (ValueId id : chain_.inputs) note(id == kNoValue ? produced_ : id);
    spec.ops.reserve(chain_.ops.size());
    for (const ChainOp& op : chain_.ops) {
      ChainSpec::Op& wired = spec.ops.emplace_back(ChainSpec::Op{.instruction = op.number});
      wired.operands.reserve(op.inputs.size());
      for (ValueId id : op.inputs) wired.operands.push_back(register_of(id));
      for (ValueId id : op.results) note(id);
    }
    for (ValueId id : chain_.outputs) spec.stored.push_back(register_of(id));
    return spec;
  }

 private:
  using Place = std::pair<int32_t, int64_t>;  // storage, offset
  Place place_of(ValueId id) const { return {plan_.value(id).storage, plan_.value(id).offset}; }

  void note(ValueId id) {
    if (plan_.fills(id, chain_.space)) {
      full_[place_of(id)] = next_++;
    } else {
      partial_[id] = next_++;
    }
  }

  int32_t register_of(ValueId id) const {
    if (id == kNoValue) return -1;
    if (plan_.fills(id, chain_.space)) {
      if (auto it = full_.find(place_of(id)); it != full_.end()) return it->second;
    } else {
      if (auto it = partial_.find(id); it != partial_.end()) return it->second;
      for (const auto& [other, reg] : partial_) {
        if (plan_.same_memory(id, other)) return reg;
      }
    }
    throw support::InternalError(support::str("[bind] a chain uses %", plan_.value(id).name,
                                              ", which it neither reads nor computes."));
  }

  const Plan& plan_;
  const Chain& chain_;
  ValueId produced_;
  int32_t next_ = 0;
  std::map<Place, int32_t> full_;  // values of the chain's shape
  std::unordered_map<ValueId, int32_t> partial_;
};

class KernelBinder {
 public:
  explicit KernelBinder(Plan& plan)
      : plan_(plan),
        maker_(plan.program, plan.registry, plan, plan.instructions, plan.options.threads) {}

  void run(std::vector<Node>& block) {
    std::vector<Node> result;
    result.reserve(block.size());
    for (Node& node : block) {
      support::check_interrupt();
      for_each_block(node, [&](std::vector<Node>& inner) { run(inner); });
      check_inputs(node);
      if (auto* chain = as<ChainNode>(node)) bind_chain(*chain);
      if (auto* reorder = as<ReorderNode>(node)) {
        finish(reorder->call, maker_.make(ReorderSpec{reorder->from, reorder->to}));
      }
      auto* op = as<OpNode>(node);
      if (!op) {
        result.push_back(std::move(node));
      } else if (op->def->is_view()) {  // one that could not become an alias
        result.emplace_back(CopyNode{op->instruction, op->inputs[0], op->outputs[0]});
      } else {
        std::optional<ChainNode> apart = bind_op(*op);
        result.push_back(std::move(node));
        if (apart) result.emplace_back(std::move(*apart));
      }
    }
    block = std::move(result);
  }

 private:
  // Only chains and kernels whose row says so read values by strides.
  void check_inputs(const Node& node) const {
    const auto* op = as<OpNode>(node);
    const KernelRow* row = op ? all_kernels().find(op->def->name) : nullptr;
    for (ValueId id : inputs_of(node)) {
      if (id == kNoValue || !plan_.value(id).is_strided()) continue;
      if (row && row->reads_strides && row->reads_strides(plan_.value(id).type)) continue;
      throw support::InternalError(
          support::str("[bind] %", plan_.value(id).name,
                       " has strides, and a node that needs neighbours reads it."));
    }
  }

  void bind_chain(ChainNode& node) {
    finish(node.call, maker_.make(ChainWirer(plan_, node.chain, kNoValue).run()));
  }

  // Returns the epilogue as a separate node if the kernel refuses it.
  std::optional<ChainNode> bind_op(OpNode& node) {
    OpSpec spec{.instruction = node.number, .inputs = node.inputs, .outputs = node.outputs};
    std::optional<ChainNode> apart;
    if (node.epilogue) {
      spec.epilogue = ChainWirer(plan_, *node.epilogue, node.outputs[0]).run();
      if (Kernel kernel = maker_.make(spec); kernel.bound) {
        finish(node.call, std::move(kernel));
        return apart;
      }
      spec.epilogue.reset();
      node.epilogue->inputs[0] = node.outputs[0];
      ++plan_.storage_of(node.outputs[0]).readers;
      apart = ChainNode{std::move(*node.epilogue)};
      node.epilogue.reset();
      bind_chain(*apart);
    }
    Kernel kernel;
    if (!plan_.options.reference_only) kernel = maker_.make(spec);
    if (!kernel.bound) {
      spec.provider = maker_.fallback(spec);
      kernel = maker_.make(std::move(spec));
    }
    finish(node.call, std::move(kernel));
    return apart;
  }

  void finish(KernelCall& call, Kernel kernel) {
    call.kernel = std::make_unique<Kernel>(std::move(kernel));
    const int64_t bytes = call.kernel->bound->workspace_bytes();
    if (bytes == 0) return;
    const auto buffers = arguments_of(plan_, plan_.program, call.kernel->spec);
    int ipu = 0;
    for (ValueId id : buffers) {
      if (id != kNoValue && plan_.storage_of(id).base == Base::kArena)
        ipu = plan_.storage_of(id).ipu;
    }
    call.workspace = plan_.add_value({ir::DType::kU8, {bytes}}, "workspace", ipu);
    const std::vector<int> operands = call.kernel->bound->prepared_operands();
    call.prepared = !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](int i) {
      const ValueId id = buffers[i];
      if (id == kNoValue) return true;
      const Storage& storage = plan_.storage_of(id);
      return storage.base != Base::kArena && storage.writers == 0;
    });
    plan_.storage_of(call.workspace).kept = call.prepared;
  }

  Plan& plan_;
  KernelMaker maker_;
};

}  // namespace

KernelRequest make_request(const Plan& plan, const OpNode& node) {
  return make_request(plan, *node.instruction, *node.def, node.inputs, node.outputs,
                      plan.program.replicas, plan.options.threads);
}

void choose_kernels(Plan& plan) {
  for (Storage& storage : plan.storages) storage.readers = 0;
  for (const auto& body : plan.bodies) {
    for (const Node& node : body) {
      for_each_access(plan, node, [&](int32_t storage, bool write) {
        if (!write) ++plan.storages[storage].readers;
      });
    }
  }
  for (auto& body : plan.bodies) KernelBinder(plan).run(body);
}

}  // namespace poptorch::emulator
