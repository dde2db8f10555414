// choose_kernels binds a kernel for every compute node: a tile program for a chain, the row's
// kernel for an op (with its chain as epilogue), else a foreign provider's or the reference kernel.
#include <algorithm>
#include <unordered_map>

#include "emulator/bind/plan.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/providers/fallback.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

// Builds the tile program of a chain. One-element constants become numbers in the program; the
// other inputs become `chain.fed`.
class ChainBuilder {
 public:
  ChainBuilder(const Plan& plan, Chain& chain, ValueId produced)
      : plan_(plan), chain_(chain), produced_(produced), builder_(space()) {}

  std::shared_ptr<const TileProgram> run() {
    chain_.fed.clear();
    for (ValueId id : chain_.inputs) {
      const bool own = id == kNoValue;
      if (!own && add_constant(id)) continue;
      chain_.fed.push_back(id);
      add_input(own ? produced_ : id);
    }
    for (const ChainOp& op : chain_.ops) add_op(op);
    for (ValueId id : chain_.outputs) builder_.output(full_.at(plan_.value(id).storage));
    return builder_.finish();
  }

 private:
  // Returns the common layout of the operands with the chain's shape, which orders the space.
  const Layout& layout() const {
    static const Layout kPlain;
    if (produced_ != kNoValue) return plan_.storage_of(produced_).layout;
    auto of = [&](const std::vector<ValueId>& ids) -> const Layout* {
      for (ValueId id : ids) {
        if (plan_.value(id).type.shape == chain_.space) return &plan_.storage_of(id).layout;
      }
      return nullptr;
    };
    if (const Layout* found = of(chain_.outputs)) return *found;
    const Layout* found = of(chain_.inputs);
    return found ? *found : kPlain;
  }

  ir::Shape space() const { return memory_shape(chain_.space, layout().kind); }

  bool add_constant(ValueId id) {
    const Storage& storage = plan_.storage_of(id);
    const Value& value = plan_.value(id);
    if (storage.base != Base::kConstant || storage.type.elements() != 1) return false;
    const ir::Literal& literal = plan_.program.constants[static_cast<size_t>(storage.index)];
    if (!literal.has_numbers()) return false;
    if (size_of(value.type.dtype) == 8 && !ir::is_float(value.type.dtype)) return false;
    const int reg = builder_.constant(value.type.dtype, literal.number_at(0));
    note(id, reg);
    return true;
  }

  void add_input(ValueId id) {
    const Value& value = plan_.value(id);
    const int reg = builder_.input(
        value.type.dtype, operand_strides(value.type.shape, plan_.storage_of(id).layout.kind,
                                          chain_.space, layout().kind));
    note(id, reg);
  }

  void note(ValueId id, int reg) {
    if (plan_.value(id).type.shape == chain_.space) {
      full_[plan_.value(id).storage] = reg;
    } else {
      partial_[id] = reg;
    }
  }

  int register_of(ValueId id) const {
    if (id == kNoValue) return -1;
    if (plan_.value(id).type.shape == chain_.space) return full_.at(plan_.value(id).storage);
    auto it = partial_.find(id);
    if (it != partial_.end()) return it->second;
    for (const auto& [other, reg] : partial_) {
      if (plan_.same_memory(id, other)) return reg;
    }
    throw support::InternalError("[bind] a chain reads a value that it does not have.");
  }

  void add_op(const ChainOp& op) {
    std::vector<int> operands;
    for (ValueId id : op.inputs) operands.push_back(register_of(id));
    std::vector<ir::DType> results;
    for (ValueId id : op.results) results.push_back(plan_.value(id).type.dtype);
    const auto registers =
        builder_.op(*op.def, op.instruction->attrs, operands, results, op.instruction->op_id);
    for (size_t i = 0; i < op.results.size(); ++i) note(op.results[i], registers[i]);
  }

  const Plan& plan_;
  Chain& chain_;
  ValueId produced_;
  TileProgramBuilder builder_;
  std::unordered_map<int32_t, int> full_;  // by storage: values of the chain's shape
  std::unordered_map<ValueId, int> partial_;
};

class Binding {
 public:
  explicit Binding(Plan& plan) : plan_(plan) {}

  void run(std::vector<Node>& block) {
    std::vector<Node> result;
    result.reserve(block.size());
    for (Node& node : block) {
      support::check_interrupt();
      for (auto& inner : node.blocks) run(inner);
      if (node.is_chain()) {
        if (node.chain) bind_chain(node);
        result.push_back(std::move(node));
      } else if (node.instruction->kind != Instruction::Kind::kCompute || is_moved(node)) {
        result.push_back(std::move(node));
      } else {
        std::optional<Node> apart = bind_op(node);
        result.push_back(std::move(node));
        if (apart) result.push_back(std::move(*apart));
      }
    }
    block = std::move(result);
  }

 private:
  // Views that could not become aliases are copies, and the runner executes collectives: neither
  // has a kernel.
  static bool is_moved(const Node& node) { return node.def->is_view() || node.is_collective(); }

  void bind_chain(Node& node) {
    Chain& chain = *node.chain;
    chain.program = ChainBuilder(plan_, chain, kNoValue).run();
    node.kernel = bind_tile_program(chain.program);
    node.buffers = chain.fed;
    node.buffers.insert(node.buffers.end(), chain.outputs.begin(), chain.outputs.end());
    finish(node);
  }

  // Reference kernels support only the plain layout.
  static void check_plain(const KernelRequest& request) {
    auto plain = [](const std::vector<Layout>& layouts) {
      return std::all_of(layouts.begin(), layouts.end(),
                         [](const Layout& l) { return l.kind == Layout::Kind::kPlain; });
    };
    if (plain(request.input_layouts) && plain(request.output_layouts)) return;
    throw support::InternalError(support::str("[bind] the kernel of '", request.op->name,
                                              "' asked for layouts and refused."));
  }

  static Provider provider_of(const KernelRequest& request) {
    if (request.op->role == ir::Role::kOpaque) return Provider::kForeign;
    auto one = [](const auto& type) { return !type || type->elements() == 1; };
    bool numbers = std::all_of(request.inputs.begin(), request.inputs.end(), one);
    for (const ir::Type& type : request.outputs) numbers &= type.elements() == 1;
    // Ops with a side effect (checks, prints) count as bookkeeping.
    return numbers || request.op->side_effect ? Provider::kBookkeeping : Provider::kReference;
  }

  // Returns the chain as a separate node if the kernel refuses it as an epilogue.
  std::optional<Node> bind_op(Node& node) {
    const KernelRow* row =
        plan_.options.reference_only ? nullptr : all_kernels().find(node.def->name);
    KernelRequest request = make_request(plan_, node);
    node.buffers = node.inputs;
    node.buffers.insert(node.buffers.end(), node.outputs.begin(), node.outputs.end());
    std::optional<Node> apart;
    if (node.chain) {
      Chain& chain = *node.chain;
      chain.program = ChainBuilder(plan_, chain, node.outputs[0]).run();
      request.epilogue = chain.program.get();
      node.kernel = row->bind(request);
      if (node.kernel) {
        node.buffers.insert(node.buffers.end(), chain.fed.begin() + 1, chain.fed.end());
        node.buffers.insert(node.buffers.end(), chain.outputs.begin(), chain.outputs.end());
        finish(node);
        return apart;
      }
      chain.inputs[0] = node.outputs[0];
      ++plan_.storage_of(node.outputs[0]).readers;
      request.output_used[0] = true;
      request.epilogue = nullptr;
      apart.emplace();
      apart->chain = std::move(node.chain);
      node.chain.reset();
      bind_chain(*apart);
    }
    if (row) node.kernel = row->bind(request);
    if (!node.kernel) {
      check_plain(request);
      node.kernel = bind_fallback(request);
      node.provider = provider_of(request);
    }
    finish(node);
    return apart;
  }

  void finish(Node& node) {
    const int64_t bytes = node.kernel->workspace_bytes();
    if (bytes == 0) return;
    int ipu = 0;
    for (ValueId id : node.buffers) {
      if (id != kNoValue && plan_.storage_of(id).base == Base::kArena)
        ipu = plan_.storage_of(id).ipu;
    }
    node.workspace = plan_.add_value({ir::DType::kU8, {bytes}}, "workspace", ipu);
    const std::vector<int> operands = node.kernel->prepared_operands();
    node.prepared = !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](int i) {
      const ValueId id = node.buffers[static_cast<size_t>(i)];
      if (id == kNoValue) return true;
      const Storage& storage = plan_.storage_of(id);
      return storage.base != Base::kArena && storage.writers == 0;
    });
    plan_.storage_of(node.workspace).kept = node.prepared;
  }

  Plan& plan_;
};

}  // namespace

KernelRequest make_request(const Plan& plan, const Node& node) {
  KernelRequest request;
  request.op = node.def;
  request.attrs = node.instruction->attrs;
  for (ValueId id : node.inputs) {
    const bool absent = id == kNoValue;
    request.inputs.push_back(absent ? std::nullopt : std::optional(plan.value(id).type));
    request.input_layouts.push_back(absent ? Layout{} : plan.storage_of(id).layout);
  }
  for (ValueId id : node.outputs) {
    const Storage& storage = plan.storage_of(id);
    request.outputs.push_back(plan.value(id).type);
    request.output_layouts.push_back(storage.layout);
    request.output_used.push_back(storage.base == Base::kState || storage.writers > 1 ||
                                  storage.readers > 0);
  }
  request.op_id = node.instruction->op_id;
  request.replicas = plan.program.replicas;
  request.threads = plan.options.threads;
  return request;
}

void choose_kernels(Plan& plan) {
  for (Storage& storage : plan.storages) storage.readers = 0;
  for (const auto& body : plan.bodies) {
    for (const Node& node : body) {
      for_each_access(plan, node, [&](int32_t storage, bool write) {
        if (!write) ++plan.storages[static_cast<size_t>(storage)].readers;
      });
    }
  }
  for (auto& body : plan.bodies) Binding(plan).run(body);
}

}  // namespace poptorch::emulator
