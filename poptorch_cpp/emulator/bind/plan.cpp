// make_plan turns instructions into nodes, tensors into values, and views into aliases. A view is
// an alias only if no write to its memory can come between it and its last use; otherwise it stays
// a copy.
#include "emulator/bind/plan.hpp"

#include <map>
#include <set>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using program::Program;
using program::TensorId;
using Kind = Instruction::Kind;

// A block of instructions in the linear order of one IPU's list.
struct Span {
  int parent = -1;
  int64_t begin = 0, end = 0;
  bool loop = false;
};

struct Place {
  int64_t position = 0;
  int span = 0;
};

class Planner {
 public:
  Planner(const Program& program, const ir::Registry& registry, const EngineOptions& options)
      : program_(program),
        registry_(registry),
        plan_{{}, program, registry, options, list_instructions(program)} {}

  Plan run() {
    make_values();
    for (const auto& ipu : program_.ipus) scan_span(ipu.body, -1, false);
    for (const auto& ipu : program_.ipus) alias_views(ipu.body);
    for (const auto& ipu : program_.ipus) plan_.bodies.push_back(make_nodes(ipu.body));
    plan_.arena_bytes.resize(program_.ipus.size());
    for (const auto& body : plan_.bodies) count(body);
    return std::move(plan_);
  }

 private:
  const ir::OpDef* def_of(const Instruction& instruction) const {
    return instruction.kind == Kind::kCompute ? &registry_.get(instruction.op.text()) : nullptr;
  }

  void make_values() {
    std::map<std::pair<Base, int32_t>, int32_t> shared;
    for (const program::Tensor& tensor : program_.tensors) {
      Value value{tensor.type, -1, 0, tensor.name};
      if (tensor.base == Base::kState || tensor.base == Base::kConstant) {
        auto [it, added] = shared.emplace(std::pair(tensor.base, tensor.index),
                                          static_cast<int32_t>(plan_.storages.size()));
        if (added) plan_.storages.push_back(shared_storage(tensor));
        value.storage = it->second;
        value.offset = tensor.offset;
        Storage& storage = plan_.storages[value.storage];
        if (value.offset != 0 || !(value.type == storage.type)) storage.resized = true;
      } else {
        value.storage = static_cast<int32_t>(plan_.storages.size());
        plan_.storages.push_back({.ipu = tensor.ipu, .type = tensor.type});
      }
      plan_.values.push_back(std::move(value));
    }
    reads_.resize(plan_.values.size());
    views_.resize(plan_.values.size());
    overwritten_.resize(plan_.values.size());
    writes_.resize(plan_.storages.size());
  }

  Storage shared_storage(const program::Tensor& tensor) const {
    const auto index = static_cast<size_t>(tensor.index);
    Storage storage{.base = tensor.base, .index = tensor.index};
    storage.type = tensor.base == Base::kState ? program_.states[index].slot.type
                                               : program_.constants[index].type();
    return storage;
  }

  int32_t& storage(TensorId id) { return plan_.values[id].storage; }

  void scan_span(const std::vector<Instruction>& block, int parent, bool loop) {
    const int span = static_cast<int>(spans_.size());
    spans_.push_back({parent, position_, 0, loop});
    for (const Instruction& instruction : block) {
      const Place place{++position_, span};
      for (TensorId id : instruction.inputs) {
        if (id != program::kNoTensor) reads_[id].push_back(place);
      }
      scan_writes(instruction, place);
      for (const auto& inner : instruction.blocks) {
        scan_span(inner, span, instruction.kind == Kind::kLoop);
      }
    }
    spans_[span].end = ++position_;
  }

  void scan_writes(const Instruction& instruction, Place place) {
    if (const ir::OpDef* def = def_of(instruction)) {
      for (size_t i = 0; i < def->writes.size(); ++i) {
        const auto operand = static_cast<size_t>(def->writes[i]);
        if (operand >= instruction.inputs.size()) continue;
        const TensorId id = instruction.inputs[operand];
        if (id == program::kNoTensor) continue;
        overwritten_[id] = true;
        writes_[storage(id)].push_back(place.position);
        if (i >= instruction.outputs.size()) continue;
        // The result is the operand's memory after the write.
        Value& result = plan_.values[instruction.outputs[i]];
        result.storage = storage(id);
        result.offset = plan_.value(id).offset;
      }
    }
    for (TensorId id : instruction.outputs) {
      if (id != program::kNoTensor) {
        writes_[storage(id)].push_back(place.position);
      }
    }
    if (instruction.view) {
      views_[instruction.outputs[0]].push_back(place);
    }
  }

  void alias_views(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      if (instruction.view && may_alias(instruction.inputs[0], instruction.outputs[0])) {
        const TensorId from = instruction.inputs[0];
        Value& view = plan_.values[instruction.outputs[0]];
        view.storage = storage(from);
        view.offset = plan_.value(from).offset;
        aliased_.insert(&instruction);
        if (view.type != plan_.value(from).type) plan_.storage_of(from).resized = true;
      }
      for (const auto& inner : instruction.blocks) alias_views(inner);
    }
  }

  bool may_alias(TensorId from, TensorId to) {
    const auto view = static_cast<size_t>(to);
    if (program_.tensors[view].base == Base::kState || views_[view].size() != 1) return false;
    if (writes_[storage(to)].size() != 1 || overwritten_[view]) return false;
    const Place made = views_[view][0];
    int64_t last = made.position;
    for (Place use : reads_[view]) {
      int64_t position = use.position;
      int span = use.span;
      while (span != -1 && span != made.span) {
        const Span& inner = spans_[span];
        if (inner.loop) position = inner.end;
        span = inner.parent;
      }
      if (span == -1) return false;
      last = std::max(last, position);
    }
    for (int64_t write : writes_[storage(from)]) {
      if (write > made.position && write <= last) return false;
    }
    // The view's readers now read this storage, which matters for later views of it.
    auto& reads = reads_[from];
    reads.insert(reads.end(), reads_[view].begin(), reads_[view].end());
    return true;
  }

  std::vector<Node> make_nodes(const std::vector<Instruction>& block) {
    std::vector<Node> nodes;
    for (const Instruction& instruction : block) {
      const int32_t number = next_++;
      if (!aliased_.count(&instruction)) nodes.push_back(make_node(instruction, number));
    }
    return nodes;
  }

  Node make_node(const Instruction& instruction, int32_t number) {
    const auto& inputs = instruction.inputs;
    const auto& outputs = instruction.outputs;
    const ir::OpDef* def = def_of(instruction);
    switch (instruction.kind) {
      case Kind::kCompute:
        if (def->role == ir::Role::kCollective) {
          return CollectiveNode{&instruction, def, inputs[0], outputs[0]};
        }
        return OpNode{&instruction, number, def, inputs, outputs};
      case Kind::kLoop:
        return LoopNode{&instruction, make_nodes(instruction.blocks[0])};
      case Kind::kIf:  // braces make the nodes in this order
        return BranchNode{&instruction, inputs[0], make_nodes(instruction.blocks[0]),
                          make_nodes(instruction.blocks[1])};
      case Kind::kCopy:
        return CopyNode{&instruction, inputs[0], outputs[0]};
      case Kind::kOffChipLoad:
      case Kind::kOffChipStore:
        if (instruction.channel < 0) return CopyNode{&instruction, inputs[0], outputs[0]};
        break;
      default:
        break;
    }
    return TransferNode{&instruction, inputs, outputs};
  }

  void count(const std::vector<Node>& block) {
    for (const Node& node : block) {
      support::check_interrupt();
      for (ValueId id : inputs_of(node)) {
        if (id != kNoValue) ++plan_.storage_of(id).readers;
      }
      std::set<int32_t> written;
      for (ValueId id : outputs_of(node)) {
        if (id != kNoValue) written.insert(plan_.value(id).storage);
      }
      if (const auto* op = as<OpNode>(node)) {
        for (ValueId id : written_operands(*op->def, op->inputs)) {
          written.insert(plan_.value(id).storage);
        }
      }
      for (int32_t id : written) ++plan_.storages[id].writers;
      if (const auto* collective = as<CollectiveNode>(node)) {
        plan_.storage_of(collective->from).meets = true;
        plan_.storage_of(collective->to).meets = true;
      }
      for_each_block(node, [&](const std::vector<Node>& inner) { count(inner); });
    }
  }

  const Program& program_;
  const ir::Registry& registry_;
  Plan plan_;
  int64_t position_ = 0;
  int32_t next_ = 0;  // number of the next instruction
  Table<int, Span> spans_;
  Table<ValueId, std::vector<Place>> reads_;
  Table<ValueId, std::vector<Place>> views_;  // the view instructions that make it
  Table<ValueId, bool> overwritten_;
  Table<StorageId, std::vector<int64_t>> writes_;  // positions
  std::set<const Instruction*> aliased_;           // look-up only
};

}  // namespace

ValueId Plan::add_value(const ir::Type& type, support::Symbol name, int ipu) {
  // Adds the storage first: `type` may belong to a value, which moves if `values` grows.
  storages.push_back({.ipu = ipu, .type = ir::Type(type)});
  const auto storage = static_cast<int32_t>(storages.size()) - 1;
  values.push_back({storages.back().type, storage, 0, name});
  return static_cast<ValueId>(values.size() - 1);
}

Plan make_plan(const program::Program& program, const ir::Registry& registry,
               const EngineOptions& options) {
  return Planner(program, registry, options).run();
}

}  // namespace poptorch::emulator
