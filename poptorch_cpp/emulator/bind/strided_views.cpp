#include "emulator/bind/strided_views.hpp"

#include <algorithm>

#include "emulator/bind/kernel_maker.hpp"

namespace poptorch::emulator {
namespace {

using ir::Ints;
using ir::Shape;
using program::Instruction;
using program::TensorId;
using Kind = Instruction::Kind;

// Readers gather shorter runs slowly: then one copy for all of them is faster.
constexpr int64_t kShortRun = 16;  // elements

// Where the elements of a result are in the memory of its operand.
struct Places {
  Shape strides;  // elements
  int64_t first = 0;
};

const Ints& ints_of(const Instruction& instruction, std::string_view name) {
  return std::get<Ints>(*instruction.attrs.find(name));
}

Shape strides_of(const Value& value) {
  return value.is_strided() ? value.strides : ir::row_major_strides(value.type.shape);
}

Shape without_ones(const Shape& shape) {
  Shape kept;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(kept),
               [](int64_t size) { return size != 1; });
  return kept;
}

// Moves the strides of the other dimensions to where these are in `to`.
Shape strides_between_ones(const Shape& from, const Shape& strides, const Shape& to) {
  Shape moved(to.size(), 0);
  size_t next = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1) continue;
    while (from[next] == 1) ++next;
    moved[d] = strides[next++];
  }
  return moved;
}

Places places_of(const Instruction& instruction, const Value& from, const Shape& to) {
  const Shape held = strides_of(from);
  const Shape& shape = from.type.shape;
  Places places;
  if (instruction.view) {
    places.strides = strides_between_ones(shape, held, to);
  } else if (instruction.op == "slice") {
    const Ints& starts = ints_of(instruction, "starts");
    const Ints& steps = ints_of(instruction, "steps");
    for (size_t d = 0; d < shape.size(); ++d) {
      places.first += starts[d] * held[d];
      places.strides.push_back(steps[d] * held[d]);
    }
  } else if (instruction.op == "transpose") {
    for (int64_t axis : ints_of(instruction, "permutation")) {
      places.strides.push_back(held[static_cast<size_t>(axis)]);
    }
  } else {  // broadcast_to
    places.strides.assign(to.size(), 0);
    const size_t more = to.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == to[more + d]) places.strides[more + d] = held[d];
    }
  }
  return places;
}

// Returns the number of elements that lie next to each other, in the order of the result.
int64_t run_of(const Shape& shape, const Shape& strides) {
  int64_t run = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != run) break;
    run *= shape[d];
  }
  return run;
}

// Returns the number of last elements with the same operand element.
int64_t repeats_of(const Shape& shape, const Shape& strides) {
  int64_t count = 1;
  for (size_t d = shape.size(); d-- > 0 && (shape[d] == 1 || strides[d] == 0);) count *= shape[d];
  return count;
}

}  // namespace

StridedViews::StridedViews(const Plan& plan) : plan_(plan) {
  for (const auto& ipu : plan.program.ipus) collect(ipu.body);
}

void StridedViews::collect(const std::vector<Instruction>& block) {
  for (const Instruction& instruction : block) {
    for (TensorId id : instruction.inputs) {
      if (id != program::kNoTensor) readers_[id].push_back(&instruction);
    }
    for (TensorId id : instruction.outputs) makers_[id] = &instruction;
    has_layouts_ = has_layouts_ || chooses_layout(instruction);
    for (const auto& inner : instruction.blocks) collect(inner);
  }
}

bool StridedViews::may_be_view(const Instruction& instruction) const {
  if (instruction.kind != Kind::kCompute || plan_.options.reference_only) return false;
  const bool moves = instruction.op == "slice" || instruction.op == "transpose" ||
                     instruction.op == "broadcast_to";
  if (!moves) return false;
  const ir::Type& type = plan_.value(instruction.outputs[0]).type;
  return type.elements() > 0 && !(has_layouts_ && is_image(instruction.inputs[0]));
}

// Returns whether the tensor may be held in another layout than plain. Those of two dimensions and
// sequences of vectors are not, unless a convolution makes them.
bool StridedViews::is_image(TensorId id, int ops) const {
  const int64_t rank = plan_.value(id).type.rank();
  if (rank != 3) return rank > 3;
  const auto maker = makers_.find(id);
  if (maker == makers_.end() || maker->second->kind != Kind::kCompute) return false;
  const Instruction& instruction = *maker->second;
  if (chooses_layout(instruction)) return true;
  if (!instruction.elementwise || ops == 0) return false;
  return std::ranges::any_of(instruction.inputs, [&](TensorId operand) {
    return operand != program::kNoTensor && is_image(operand, ops - 1);
  });
}

std::vector<TensorId> StridedViews::views_of(TensorId id) const {
  std::vector<TensorId> views;
  auto it = readers_.find(id);
  if (it == readers_.end()) return views;
  for (const Instruction* reader : it->second) {
    if (reader->view) views.push_back(reader->outputs[0]);
  }
  return views;
}

// Returns whether all readers can read the tensor by strides.
bool StridedViews::is_read_by_strides(TensorId id) const {
  auto it = readers_.find(id);
  if (it == readers_.end()) return false;
  return std::all_of(it->second.begin(), it->second.end(), [&](const Instruction* reader) {
    if (reader->kind != Kind::kCompute) return false;
    const ir::OpDef& def = plan_.registry.get(reader->op.text());
    if (!def.writes.empty()) return false;
    if (reader->view) {
      const TensorId result = reader->outputs[0];
      return without_ones(plan_.value(id).type.shape) ==
                 without_ones(plan_.value(result).type.shape) &&
             is_read_by_strides(result);
    }
    const KernelRow* row = all_kernels().find(def.name);
    if (row && row->reads_strides && row->reads_strides(plan_.value(id).type)) return true;
    return is_fusible(plan_, def, reader->attrs, reader->inputs, reader->outputs);
  });
}

// Counts the ops that read the tensor or a view of it.
size_t StridedViews::ops_reading(TensorId id) const {
  size_t count = 0;
  for (const Instruction* reader : readers_.at(id)) {
    count += reader->view ? ops_reading(reader->outputs[0]) : 1;
  }
  return count;
}

// Returns whether the op asks for another layout than plain when it is offered plain ones.
bool StridedViews::chooses_layout(const Instruction& instruction) const {
  if (instruction.kind != Kind::kCompute) return false;
  const ir::OpDef& def = plan_.registry.get(instruction.op.text());
  const KernelRow* row = all_kernels().find(def.name);
  if (!row || !row->choose_layouts || def.elementwise) return false;
  KernelRequest request = make_request(plan_, instruction, def, instruction.inputs,
                                       instruction.outputs, 1, plan_.options.threads);
  request.input_fixed.assign(request.inputs.size(), false);  // their layouts concern no other value
  row->choose_layouts(request);
  auto is_plain = [](const Layout& layout) { return layout.kind == Layout::Kind::kPlain; };
  return !std::ranges::all_of(request.input_layouts, is_plain) ||
         !std::ranges::all_of(request.output_layouts, is_plain);
}

bool StridedViews::make_view(const Instruction& instruction, ValueTable& values) const {
  const Value& from = values.value(instruction.inputs[0]);
  Value view = values.value(instruction.outputs[0]);
  if (instruction.view && without_ones(from.type.shape) != without_ones(view.type.shape)) {
    return false;
  }
  const Places places = places_of(instruction, from, view.type.shape);
  const int64_t run = run_of(view.type.shape, places.strides);
  const bool dense = run == view.type.elements();
  // A view of what has strides must be a view.
  const bool must = instruction.view && from.is_strided();
  if (!dense && !must) {
    if (!is_read_by_strides(instruction.outputs[0])) return false;
    const size_t readers = ops_reading(instruction.outputs[0]);
    const bool quick = std::max(run, repeats_of(view.type.shape, places.strides)) >= kShortRun;
    if (!quick && (readers > 1 || instruction.op == "transpose")) return false;
  }
  if (!dense) view.strides = places.strides;
  view.storage = from.storage;
  view.offset = from.offset + places.first * ir::size_of(view.type.dtype);
  values.storages[view.storage].resized = true;
  values.values[instruction.outputs[0]] = std::move(view);
  return true;
}

}  // namespace poptorch::emulator
