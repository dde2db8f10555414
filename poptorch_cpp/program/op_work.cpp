#include "program/op_work.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "ir/type.hpp"
#include "program/element_work.hpp"
#include "target/contraction.hpp"

namespace poptorch::program {
namespace {

using target::Contraction;
using target::Terms;
using Contractions = std::vector<Contraction>;

const Type& input(const Program& program, const Instruction& instruction, size_t i) {
  return program.tensors[instruction.inputs[i]].type;
}

const Type& output(const Program& program, const Instruction& instruction) {
  return program.tensors[instruction.outputs[0]].type;
}

bool flag(const Instruction& instruction, std::string_view name) {
  const ir::Attr* attr = instruction.attrs.find(name);
  return attr && std::get<bool>(*attr);
}

int64_t product_of(const ir::Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

Contraction started(const Type& type) {
  const bool half = ir::size_of(type.dtype) <= 2;
  return {.half = half, .partial_bytes = 4};
}

Contraction product(const Type& type, int64_t groups, int64_t rows, int64_t inner, int64_t outer) {
  Contraction made = started(type);
  made.groups = groups;
  made.width = rows;
  made.inner = inner;
  made.outer = outer;
  return made;
}

bool is_state(const Program& program, const Instruction& instruction, size_t i) {
  return program.tensors[instruction.inputs[i]].base == Base::kState;
}

// The matrix units sum over the innermost dimension of both operands. An operand that the product
// sums over another dimension of changes its layout. A weight has the layout that its forward pass
// needs.
// A second operand that is the same for the whole batch makes one product of all rows.
Contractions matmul_shapes(const Program& program, const Instruction& op) {
  const Type &a = input(program, op, 0), &b = input(program, op, 1);
  const ir::Shape& y = output(program, op).shape;
  const size_t rank = y.size();
  const int64_t inner = a.shape[a.shape.size() - (flag(op, "transpose_a") ? 2 : 1)];
  const int64_t batch = product_of(y, 0, rank - 2);
  const bool shared = product_of(b.shape, 0, b.shape.size() - 2) == 1;
  Contraction made =
      product(a, shared ? 1 : batch, (shared ? batch : 1) * y[rank - 2], inner, y[rank - 1]);
  const bool chosen = op.pass == Pass::kForward && is_state(program, op, 1);
  if (flag(op, "transpose_a")) made.rearranged += a.elements();
  if (!flag(op, "transpose_b") && !chosen) made.rearranged += b.elements();
  return {made};
}

Contractions linear_shapes(const Program& program, const Instruction& op) {
  const Type &x = input(program, op, 0), &w = input(program, op, 1);
  return {product(x, 1, product_of(x.shape, 0, x.shape.size() - 1), w.shape[1], w.shape[0])};
}

// Returns a convolution with the rows of `rows` [n, channels, spatial...] and the kernel of `w`.
Contraction convolution(const Instruction& op, const Type& rows, const Type& w) {
  Contraction made = started(rows);
  const size_t rank = rows.shape.size();
  const ir::Attr* groups = op.attrs.find("groups");  // absent: 1
  if (groups) made.groups = std::get<int64_t>(*groups);
  made.batch = rows.shape[0];
  made.height = product_of(rows.shape, 2, rank - 1);
  made.width = rows.shape[rank - 1];
  made.taps_y = product_of(w.shape, 2, rank - 1);
  made.taps_x = w.shape[rank - 1];
  return made;
}

Contractions conv_shapes(const Program& program, const Instruction& op) {
  const Type& w = input(program, op, 1);
  Contraction made = convolution(op, output(program, op), w);
  made.inner = w.shape[1];
  made.outer = w.shape[0] / made.groups;
  made.stride = std::get<ir::Ints>(*op.attrs.find("strides")).back();
  return {made};
}

// Each row of `dy` is multiplied by the transposed kernel.
Contractions transposed_shapes(const Program& program, const Instruction& op) {
  const Type& w = input(program, op, 1);
  Contraction made = convolution(op, input(program, op, 0), w);
  made.inner = w.shape[0] / made.groups;
  made.outer = w.shape[1];
  if (op.pass != Pass::kForward) made.rearranged = w.elements();
  return {made};
}

// The rows are the weights of an output channel, and the sum is over the rows of `dy`.
Contractions weight_gradient_shapes(const Program& program, const Instruction& op) {
  const Type& dw = output(program, op);
  Contraction made = convolution(op, input(program, op, 1), dw);
  const int64_t taps = made.taps_y * made.taps_x;
  made.inner = made.batch * made.height * made.width;
  made.outer = dw.shape[0] / made.groups;
  made.batch = 1;
  made.height = taps;
  made.width = dw.shape[1];
  made.reuse = taps;
  made.rearranged = input(program, op, 0).elements() + input(program, op, 1).elements();
  made.taps_y = made.taps_x = 1;
  return {made};
}

struct Heads {
  Type type;
  int64_t groups, queries, keys, width, values;
};

Heads heads_of(const Program& program, const Instruction& op) {
  const Type &q = input(program, op, 0), &k = input(program, op, 1), &v = input(program, op, 2);
  return {q, q.shape[0] * q.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]};
}

Contractions attention_shapes(const Program& program, const Instruction& op) {
  const auto [type, groups, queries, keys, width, values] = heads_of(program, op);
  Contraction context = product(type, groups, queries, keys, values);
  context.rearranged = groups * keys * values;
  return {product(type, groups, queries, width, keys), context};
}

// The scores again, then the gradients of v, of the scores, of q and of k.
Contractions attention_grad_shapes(const Program& program, const Instruction& op) {
  const auto [type, groups, queries, keys, width, values] = heads_of(program, op);
  Contraction of_v = product(type, groups, keys, queries, values);
  Contraction of_q = product(type, groups, queries, keys, width);
  Contraction of_k = product(type, groups, keys, queries, width);
  of_v.rearranged = groups * queries * (keys + values);
  of_q.rearranged = groups * keys * width;
  of_k.rearranged = groups * queries * (keys + width);
  return {product(type, groups, queries, width, keys), of_v,
          product(type, groups, queries, values, keys), of_q, of_k};
}

// Operations on each element of the scores: scale, mask and softmax; and the softmax's gradient.
constexpr double kForwardScores = 14, kBackwardScores = 22;

struct Model {
  Contractions (*shapes)(const Program&, const Instruction&) = nullptr;
  double score_flops = 0;
  int64_t score_tensors = 0;  // live at a time
};

// Returns the model by shape of an op, or nullptr.
const Model* model_of(const Instruction& instruction) {
  static const std::unordered_map<std::string, Model> kModels = {
      {"matmul", {matmul_shapes}},
      {"linear", {linear_shapes}},
      {"conv", {conv_shapes}},
      {"conv_transpose", {transposed_shapes}},
      {"conv_grad_input", {transposed_shapes}},
      {"conv_grad_weight", {weight_gradient_shapes}},
      {"attention", {attention_shapes, kForwardScores, 1}},
      {"attention_grad", {attention_grad_shapes, kBackwardScores, 2}},
  };
  const auto found = kModels.find(instruction.op.text());
  return found == kModels.end() ? nullptr : &found->second;
}

struct Sizes {
  double inputs = 0, outputs = 0;  // bytes
  double elements = 0;             // of the largest tensor
  double indices = 0;              // elements of the first index operand
};

Sizes sizes_of(const Program& program, const Instruction& instruction) {
  Sizes sizes;
  for (TensorId id : instruction.inputs) {
    if (id == kNoTensor) continue;
    const Type& type = program.tensors[id].type;
    sizes.inputs += static_cast<double>(type.bytes());
    sizes.elements = std::max(sizes.elements, static_cast<double>(type.elements()));
    if (type.dtype == ir::DType::kI32 && sizes.indices == 0) {
      sizes.indices = static_cast<double>(type.elements());
    }
  }
  double largest = 0;
  for (TensorId id : instruction.outputs) {
    if (id == kNoTensor) continue;
    const Type& type = program.tensors[id].type;
    sizes.outputs += static_cast<double>(type.bytes());
    largest = std::max(largest, static_cast<double>(type.elements()));
  }
  if (!instruction.indexed) sizes.elements = std::max(sizes.elements, largest);
  if (instruction.indexed) sizes.elements = largest;
  return sizes;
}

// Returns whether the op computes on 16-bit elements.
bool is_half(const Program& program, const Instruction& instruction) {
  const auto& sample = instruction.outputs.empty() ? instruction.inputs : instruction.outputs;
  return !sample.empty() && sample[0] != kNoTensor &&
         ir::size_of(program.tensors[sample[0]].type.dtype) <= 2;
}

target::Work work_of(const Program& program, const Instruction& instruction, const RowWork& row) {
  const Sizes sizes = sizes_of(program, instruction);
  target::Work work{.flops = row.flops,
                    .bytes = sizes.inputs + sizes.outputs,
                    .steps = row.steps,
                    .row = row.row,
                    .elements = sizes.elements,
                    .io_tiles = program.io_tiles,
                    .half = is_half(program, instruction)};
  const ElementWork elements = element_work(instruction, work.half);
  work.element_cycles = elements.planned;
  work.measured_cycles = elements.measured;
  work.reductions = elements.reductions;
  if (elements.all_measured) work.flops = 0;
  if (instruction.elementwise) return work;
  if (instruction.indexed) {
    // A multi-slice reads or writes whole rows, wherever they are.
    work.bytes = 2 * sizes.outputs;
    work.moved = sizes.outputs;
    work.rows = sizes.indices;
    return work;
  }
  work.moved = std::min(sizes.inputs, sizes.outputs);
  const double element = work.half ? 2 : 4;
  if (instruction.permutes) work.rearranged = sizes.outputs / element;
  return work;
}

void add(Terms& sum, const Terms& more) {
  sum.arithmetic += more.arithmetic;
  sum.vertex += more.vertex;
  sum.exchange += more.exchange;
  sum.sync += more.sync;
}

// PopLibs' share of a tile's memory for the temporary data of a product.
constexpr double kDefaultProportion = 0.6;

int ipu_of(const Program& program, const Instruction& instruction) {
  return program.tensors[instruction.outputs[0]].ipu;
}

int64_t integer_of(const Instruction& instruction, std::string_view name, int64_t otherwise) {
  const ir::Attr* attr = instruction.attrs.find(name);
  return attr ? std::get<int64_t>(*attr) : otherwise;
}

// Returns the tiles that compute an op.
int64_t tiles_of(const Program& program, const Instruction& instruction) {
  const int64_t all = target::find_device(program.device).tiles - program.io_tiles;
  return std::min(all, integer_of(instruction, "tiles", all));
}

// Returns the bytes of a tile for the temporary data of a product: the op's share, the IPU's, or
// the default.
int64_t tile_memory_of(const Program& program, const Instruction& instruction) {
  const target::Device& device = target::find_device(program.device);
  const ir::Attr* share = instruction.attrs.find("memory_proportion");
  if (share) return device.share_of_tile(std::get<double>(*share));
  const int64_t memory = program.ipus[ipu_of(program, instruction)].tile_memory;
  return memory > 0 ? memory : device.share_of_tile(kDefaultProportion);
}

// Returns the cost of a product that runs in parts, one after the other. The temporary data are
// those of one part. Parts of the inner dimension are added to the result.
OpCost cost_in_parts(const target::Device& device, Contraction one,
                     const Instruction& instruction) {
  const int64_t parts = integer_of(instruction, "parts", 1);
  const ir::Attr* serial = instruction.attrs.find("serial");
  const bool is_inner = serial && std::get<std::string>(*serial) == "inner";
  const bool is_columns = serial && std::get<std::string>(*serial) == "columns";
  int64_t& size = is_inner ? one.inner : is_columns ? one.outer : one.width;
  auto part_of = [parts](int64_t whole) { return (whole + parts - 1) / parts; };
  size = part_of(size);
  one.rearranged = part_of(one.rearranged);
  const target::ContractionPlan plan = target::plan_contraction(device, one);
  OpCost cost{plan.terms, plan.temporary_bytes()};
  for (int64_t part = 1; part < parts; ++part) add(cost.terms, plan.terms);
  if (parts == 1 || !is_inner) return cost;
  const int64_t results = one.groups * one.width * one.outer;
  const double element = one.half ? 2 : 4;
  cost.temporary_bytes += std::llround(element * static_cast<double>(results));
  const Terms sum = target::work_terms(device, {.flops = static_cast<double>(results),
                                                .bytes = 3 * element * static_cast<double>(results),
                                                .elements = static_cast<double>(results),
                                                .io_tiles = one.io_tiles,
                                                .half = one.half});
  for (int64_t part = 1; part < parts; ++part) add(cost.terms, sum);
  return cost;
}

// The products of an op run one after the other; they share memory, beside that of the scores.
OpCost shaped_cost(const Program& program, const Instruction& instruction, const Model& model) {
  const target::Device& device = target::find_device(program.device);
  OpCost cost;
  Terms& sum = cost.terms;
  Contractions all = model.shapes(program, instruction);
  for (Contraction& one : all) {
    if (instruction.attrs.find("partials")) one.partial_bytes = 2;  // half
    one.io_tiles = device.tiles - tiles_of(program, instruction);
    one.tile_memory = tile_memory_of(program, instruction);
    const OpCost found = cost_in_parts(device, one, instruction);
    add(sum, found.terms);
    cost.temporary_bytes = std::max(cost.temporary_bytes, found.temporary_bytes);
  }
  if (model.score_flops > 0 && !all.empty()) {
    const Contraction& scores = all.front();
    const int64_t count = scores.groups * scores.width * scores.outer;
    const auto elements = static_cast<double>(count);
    cost.temporary_bytes += count * (scores.half ? 2 : 4) * model.score_tensors;
    add(sum, target::work_terms(device, {.flops = model.score_flops * elements,
                                         .elements = elements,
                                         .io_tiles = program.io_tiles,
                                         .half = scores.half}));
  }
  return cost;
}

// Returns the bytes that tiles receive before they compute on them or change their order. Data that
// only changes its tile arrives in the result.
int64_t received_bytes(const target::Work& work) {
  const bool in_result = work.flops == 0 && work.rearranged == 0;
  return in_result ? 0 : std::llround(work.moved);
}

}  // namespace

OpCost op_cost(const Program& program, const Instruction& instruction, const RowWork& row) {
  if (instruction.view) return {};
  if (const Model* model = model_of(instruction)) {
    return shaped_cost(program, instruction, *model);
  }
  const target::Device& device = target::find_device(program.device);
  target::Work work = work_of(program, instruction, row);
  if (row.matrix_unit) {
    // The shape of the products is unknown: they run at half of the peak.
    const double peak = work.half ? device.half_macs_per_cycle : device.float_macs_per_cycle;
    work.element_cycles = row.flops / peak / std::max(work.elements, 1.0);
  }
  work = target::divided_work(device, work);
  return {target::work_terms(device, work), received_bytes(work), std::llround(work.steps)};
}

Terms known_terms(const Program& program, const Instruction& instruction) {
  if (instruction.cycles == 0) return {};
  const RowWork row{.steps = static_cast<double>(instruction.steps)};
  Terms terms = op_cost(program, instruction, row).terms;
  const auto known = static_cast<double>(instruction.cycles);
  terms.arithmetic = std::max(0.0, known - (terms.total() - terms.arithmetic));
  return terms;
}

int64_t copy_cycles(const Program& program, const Type& type) {
  const target::Work work{.bytes = 2.0 * static_cast<double>(type.bytes()),
                          .elements = static_cast<double>(type.elements()),
                          .io_tiles = program.io_tiles};
  const target::Device& device = target::find_device(program.device);
  return target::whole_cycles(target::work_terms(device, work).total());
}

}  // namespace poptorch::program
