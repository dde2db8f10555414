// make_plan turns instructions into nodes, tensors into values, and views into aliases. A view is
// an alias only if no write to its memory can come between it and its last use; otherwise it stays
// a copy.
#include "emulator/bind/plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "emulator/bind/strided_views.hpp"
#include "emulator/kernels/base/kernel.hpp"
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
    const StridedViews strided(plan_);
    strided_ = &strided;
    for (const auto& ipu : program_.ipus) scan_span(ipu.body, -1, false);
    for (const auto& ipu : program_.ipus) alias_views(ipu.body);
    for (const auto& ipu : program_.ipus) write_states_in_place(ipu.body);
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
    if (instruction.view || strided_->may_be_view(instruction)) {
      views_[instruction.outputs[0]].push_back(place);
    }
  }

  void alias_views(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      if (is_view(instruction)) {
        aliased_.insert(&instruction);
        // Its readers now read this storage, which matters for later views of it.
        auto& reads = reads_[instruction.inputs[0]];
        const auto& own = reads_[instruction.outputs[0]];
        reads.insert(reads.end(), own.begin(), own.end());
      }
      for (const auto& inner : instruction.blocks) alias_views(inner);
    }
  }

  // Makes the result a view of the operand where that changes no value.
  bool is_view(const Instruction& instruction) {
    const bool moves = !instruction.view && strided_->may_be_view(instruction);
    if (!instruction.view && !moves) return false;
    const TensorId from = instruction.inputs[0];
    const TensorId to = instruction.outputs[0];
    if (moves) return may_alias_with_views(storage(from), to) && make_strided(instruction);
    if (!may_alias(storage(from), to)) return false;
    if (plan_.value(from).is_strided()) return make_strided(instruction);
    Value& view = plan_.values[to];
    view.storage = storage(from);
    view.offset = plan_.value(from).offset;
    if (view.type != plan_.value(from).type) plan_.storage_of(from).resized = true;
    return true;
  }

  bool make_strided(const Instruction& instruction) {
    return strided_->make_view(instruction, plan_);
  }

  // Returns whether `to`, and every view of it, may be an alias of `memory`: a view that is none
  // would be copied, and that needs neighbours.
  bool may_alias_with_views(StorageId memory, TensorId to) {
    const std::vector<TensorId> views = strided_->views_of(to);
    return may_alias(memory, to) && std::all_of(views.begin(), views.end(), [&](TensorId view) {
             return may_alias_with_views(memory, view);
           });
  }

  bool may_alias(StorageId memory, TensorId to) {
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
    for (int64_t write : writes_[memory]) {
      if (write > made.position && write <= last) return false;
    }
    return true;
  }

  // Lets an op that can work in place write a state itself, where the only use of the state's old
  // value is the op, and its result is what the state becomes: a cache that grows by a row.
  void write_states_in_place(const std::vector<Instruction>& block) {
    std::map<StorageId, const Instruction*> makers;
    for (const Instruction& instruction : block) {
      for (const auto& inner : instruction.blocks) write_states_in_place(inner);
      if (instruction.kind != Kind::kCompute || aliased_.count(&instruction)) continue;
      if (instruction.op == "assign" && instruction.outputs.empty()) {
        const auto maker = makers.find(storage(instruction.inputs[1]));
        if (maker == makers.end() || !can_write(*maker->second, instruction)) continue;
        const StorageId made = maker->first;
        for (Value& value : plan_.values) {
          if (value.storage == made) value.storage = storage(instruction.inputs[0]);
        }
        plan_.storage_of(instruction.inputs[0]).resized = true;
        aliased_.insert(&instruction);
      } else if (!instruction.outputs.empty() && instruction.outputs[0] != program::kNoTensor) {
        makers[storage(instruction.outputs[0])] = &instruction;
      }
    }
  }

  // Returns whether `maker` may write its result 0 over the state that `assign` gives it to.
  bool can_write(const Instruction& maker, const Instruction& assign) {
    const TensorId state = assign.inputs[0];
    const StorageId old = storage(state), made = storage(maker.outputs[0]);
    const ir::OpDef& def = *def_of(maker);
    const KernelRow* row = all_kernels().find(def.name);
    if (def.elementwise) return false;  // a chain writes the state as well as its result
    if (!row || row->in_place_input.empty() || row->in_place_input[0] < 0) return false;
    const Value& operand = plan_.value(maker.inputs[row->in_place_input[0]]);
    const Storage& result = plan_.storages[made];
    const bool whole = operand.storage == old && operand.offset == 0 && !operand.is_strided() &&
                       plan_.value(state).offset == 0 &&
                       operand.type.bytes() == plan_.storages[old].bytes();
    if (!whole || plan_.options.reference_only) return false;
    if (result.base != Base::kArena || result.bytes() != plan_.storages[old].bytes()) return false;
    const auto uses = std::count_if(maker.inputs.begin(), maker.inputs.end(), [&](TensorId id) {
      return id != program::kNoTensor && storage(id) == old;
    });
    if (uses != 1 || writes_[made].size() != 1) return false;
    return is_first_write(old, made, assign);
  }

  // Returns whether nothing sees that `state` changes where `made` is written instead of at the
  // assignment: no read of the old value lies between, and no write before the last read of `made`.
  bool is_first_write(StorageId state, StorageId made, const Instruction& assign) {
    const auto& assigned = reads_[assign.inputs[1]];
    const int64_t from = writes_[made][0];
    const auto next = std::ranges::find_if(writes_[state], [&](int64_t at) { return at > from; });
    if (next == writes_[state].end()) return false;
    const Place* change = nullptr;
    for (const Place& read : assigned) {
      if (read.position == *next) change = &read;
    }
    if (!change) return false;
    int64_t last = from;
    for (size_t id = 0; id < plan_.values.size(); ++id) {
      const auto tensor = static_cast<TensorId>(id);
      const StorageId memory = storage(tensor);
      if (memory != state && memory != made) continue;
      for (const Place& read : reads_[tensor]) {
        if (read.span != change->span) return false;
        const bool between = read.position > from && read.position < *next;
        if (memory == state && between) return false;
        if (memory == made) last = std::max(last, read.position);
      }
    }
    return std::ranges::none_of(writes_[state],
                                [&](int64_t at) { return at > *next && at <= last; });
  }

  std::vector<Node> make_nodes(const std::vector<Instruction>& block) {
    std::vector<Node> nodes;
    nodes.reserve(block.size());
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
  const StridedViews* strided_ = nullptr;
  std::set<const Instruction*> aliased_;  // look-up only
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
