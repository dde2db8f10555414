// The canonical rewrites. Results of every row are bit-identical, with two exceptions: a bias added
// to a matrix product is fused into it, and cross entropy becomes one op. Eager's fused ops do the
// same.
#include <cmath>
#include <numeric>

#include "ir/execution.hpp"
#include "transforms/passes.hpp"
#include "transforms/rewrite.hpp"

namespace poptorch::transforms {
namespace {

using ir::DType;
using ir::Ints;
using ir::Op;
using ir::Shape;
using ir::Type;
using ir::Value;

bool is_splat(const Match& m, char name, double number) {
  const auto splat = splat_of(m.value(name));
  return splat && *splat == number && std::signbit(*splat) == std::signbit(number);
}

// Returns whether the result has x's type: nothing is broadcast or converted.
bool keeps_x(const Match& m) { return m.type('x') == m.result_type(); }

bool is_integral(const Match& m) { return ir::is_integer(m.result_type().dtype); }

Value* give_x(const Match& m) { return m.value('x'); }

Value* emit(const Match& m, std::string_view name, std::vector<Value*> operands,
            ir::Attrs attrs = {}) {
  return m.builder.value(name, std::move(operands), std::move(attrs));
}

Value* reshape_x(const Match& m) {
  return emit(m, "reshape", {m['x']}, {{"shape", Ints(m.result_type().shape)}});
}

// Returns whether every value of `from` is a value of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (ir::is_integer(from) && ir::is_integer(to)) {
    if (ir::is_signed(from) && !ir::is_signed(to)) return false;
    if (!ir::is_signed(from) && ir::is_signed(to)) return ir::size_of(to) > ir::size_of(from);
    return ir::size_of(to) >= ir::size_of(from);
  }
  const bool from_half = ir::is_half(from);
  return (from_half && (to == DType::kF32 || to == DType::kF64)) ||
         (from == DType::kF32 && to == DType::kF64);
}

bool is_exact_reciprocal(const Match& m) {
  const auto divisor = splat_of(m.value('c'));
  if (!divisor || *divisor == 0.0 || !std::isfinite(*divisor)) return false;
  int exponent;
  // A small exponent keeps the reciprocal normal in half precision, too.
  return m.result_type().dtype != DType::kF64 && ir::is_float(m.result_type().dtype) &&
         std::fabs(std::frexp(*divisor, &exponent)) == 0.5 && std::abs(exponent) <= 12;
}

const std::vector<Rewrite> kArithmetic = {
    {"neg(neg(x))", nullptr, give_x},
    {"add(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', -0.0); }, give_x},
    {"add(x, c)",
     [](const Match& m) { return keeps_x(m) && is_integral(m) && is_splat(m, 'c', 0.0); }, give_x},
    {"sub(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', 0.0); }, give_x},
    {"mul(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', 1.0); }, give_x},
    {"mul(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', -1.0); },
     [](const Match& m) { return emit(m, "neg", {m['x']}); }},
    {"div(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', 1.0); }, give_x},
    {"div(x, c)", is_exact_reciprocal,
     [](const Match& m) {
       const double number = 1.0 / *splat_of(m.value('c'));
       Value* factor = m.builder.scalar(m.result_type().dtype, number);
       if (!keeps_x(m)) {
         factor = emit(m, "broadcast_to", {factor}, {{"shape", Ints(m.type('c').shape)}});
       }
       return emit(m, "mul", {m['x'], factor});
     }},
    {"pow(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', 1.0); }, give_x},
    {"pow(x, c)", [](const Match& m) { return keeps_x(m) && is_splat(m, 'c', 2.0); },
     [](const Match& m) { return emit(m, "square", {m['x']}); }},
    {"add(x, neg(y))", nullptr, [](const Match& m) { return emit(m, "sub", {m['x'], m['y']}); }},
    {"sub(x, neg(y))", nullptr, [](const Match& m) { return emit(m, "add", {m['x'], m['y']}); }},
    {"relu(relu(x))", nullptr, [](const Match& m) { return emit(m, "relu", {m['x']}); }},
    {"abs(abs(x))", nullptr, [](const Match& m) { return emit(m, "abs", {m['x']}); }},
    {"abs(neg(x))", nullptr, [](const Match& m) { return emit(m, "abs", {m['x']}); }},
    {"logical_not(logical_not(x))", keeps_x, give_x},
    {"select(c, x, x)", keeps_x, give_x},
};

// Returns whether axes of more than one element keep their order, so that no element moves.
bool moves_nothing(const Match& m) {
  const Shape& shape = m.type('x').shape;
  int64_t last = -1;
  for (int64_t axis : m.op().attr<Ints>("permutation")) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

Value* compose_transposes(const Match& m) {
  const Ints &outer = m.op(0).attr<Ints>("permutation"), &inner = m.op(1).attr<Ints>("permutation");
  Ints composed;
  for (int64_t axis : outer) composed.push_back(inner[axis]);
  return emit(m, "transpose", {m['x']}, {{"permutation", composed}});
}

bool is_plain_copy(const Match& m) {
  return !m.execution.training || !m.op(0).attr<bool>("checkpoint");
}

const std::vector<Rewrite> kCopies = {
    {"identity(x)", is_plain_copy, give_x},
    {"detach(x)", [](const Match& m) { return !m.execution.training; }, give_x},
    {"reshape(x)", keeps_x, give_x},
    {"reshape(reshape(x))", nullptr, reshape_x},
    {"transpose(x)", moves_nothing, reshape_x},
    {"transpose(transpose(x))", nullptr, compose_transposes},
    {"broadcast_to(x)", keeps_x, give_x},
    {"broadcast_to(x)",
     [](const Match& m) { return m.type('x').elements() == m.result_type().elements(); },
     reshape_x},
    {"broadcast_to(broadcast_to(x))", nullptr,
     [](const Match& m) {
       return emit(m, "broadcast_to", {m['x']}, {{"shape", Ints(m.result_type().shape)}});
     }},
    {"cast(x)", keeps_x, give_x},
    {"cast(cast(x))",
     [](const Match& m) { return is_lossless(m.type('x').dtype, m.op(1).result()->type().dtype); },
     [](const Match& m) { return emit(m, "cast", {m['x']}, {{"dtype", m.result_type().dtype}}); }},
    {"reverse(reverse(x))",
     [](const Match& m) { return m.op(0).attr<Ints>("axes") == m.op(1).attr<Ints>("axes"); },
     give_x},
};

struct Slice {
  Ints starts, stops, steps;
  explicit Slice(const Op& op)
      : starts(op.attr<Ints>("starts")),
        stops(op.attr<Ints>("stops")),
        steps(op.attr<Ints>("steps")) {}
  ir::Attrs attrs() const { return {{"starts", starts}, {"stops", stops}, {"steps", steps}}; }
};

Value* compose_slices(const Match& m) {
  const Slice outer(m.op(0)), inner(m.op(1));
  Slice both = outer;
  for (size_t i = 0; i < outer.starts.size(); ++i) {
    both.starts[i] = inner.starts[i] + outer.starts[i] * inner.steps[i];
    both.steps[i] = outer.steps[i] * inner.steps[i];
    const int64_t count = m.result_type().shape[i];
    both.stops[i] = count == 0 ? both.starts[i] : both.starts[i] + (count - 1) * both.steps[i] + 1;
  }
  return emit(m, "slice", {m['x']}, both.attrs());
}

// Returns the operand of the concat that contains the whole slice, and where that operand begins;
// -1 if none does.
std::pair<int, int64_t> part_of_concat(const Match& m) {
  const Op& concat = m.op(1);
  const auto axis = static_cast<size_t>(concat.attr<int64_t>("axis"));
  const Slice slice(m.op(0));
  int64_t at = 0;
  for (size_t i = 0; i < concat.operand_count(); ++i) {
    const int64_t end = at + concat.operand(i)->type().shape[axis];
    if (slice.starts[axis] >= at && slice.stops[axis] <= end) return {static_cast<int>(i), at};
    at = end;
  }
  return {-1, 0};
}

Value* slice_part(const Match& m) {
  const auto [part, at] = part_of_concat(m);
  const auto axis = static_cast<size_t>(m.op(1).attr<int64_t>("axis"));
  Slice slice(m.op(0));
  slice.starts[axis] -= at;
  slice.stops[axis] -= at;
  return emit(m, "slice", {m.op(1).operand(static_cast<size_t>(part))}, slice.attrs());
}

// Returns whether all operands are slices of one value, each beginning along the axis where the
// previous one ends.
bool joins_neighbours(const Match& m) {
  const Op& concat = m.op();
  const auto axis = static_cast<size_t>(concat.attr<int64_t>("axis"));
  for (size_t i = 0; i < concat.operand_count(); ++i) {
    const Op* op = concat.operand(i)->producer();
    if (!op || !op->is("slice") || op->attr<Ints>("steps")[axis] != 1) return false;
    if (i == 0) continue;
    const Op* before = concat.operand(i - 1)->producer();
    Slice slice(*op);
    const Slice previous(*before);
    if (op->operand(0) != before->operand(0) || slice.starts[axis] != previous.stops[axis]) {
      return false;
    }
    slice.starts[axis] = previous.starts[axis];
    slice.stops[axis] = previous.stops[axis];
    if (!(slice.attrs() == previous.attrs())) return false;
  }
  return concat.operand_count() > 1;
}

Value* join_neighbours(const Match& m) {
  const Op& concat = m.op();
  const auto axis = static_cast<size_t>(concat.attr<int64_t>("axis"));
  const Op* last = concat.operand(concat.operand_count() - 1)->producer();
  Slice slice(*concat.operand(0)->producer());
  slice.stops[axis] = Slice(*last).stops[axis];
  return emit(m, "slice", {last->operand(0)}, slice.attrs());
}

// Compares the padding, not the shape: negative padding crops, so that the sizes may cancel out.
bool pads_nothing(const Match& m) {
  const Ints none(m.result_type().shape.size(), 0);
  return m.op().attr<Ints>("low") == none && m.op().attr<Ints>("high") == none;
}

const std::vector<Rewrite> kSlices = {
    {"slice(x)", keeps_x, give_x},
    {"slice(slice(x))", nullptr, compose_slices},
    {"slice(concat)", [](const Match& m) { return part_of_concat(m).first >= 0; }, slice_part},
    {"concat(x)", nullptr, give_x},
    {"concat", joins_neighbours, join_neighbours},
    {"pad(x)", pads_nothing, give_x},
};

// Returns whether the indices, broadcast to the shape of the second operand, differ along the op's
// axis alone and select whole slices of x.
bool selects_slices(const Match& m) {
  const auto axis = static_cast<size_t>(m.op().attr<int64_t>("axis"));
  const Shape &given = m.type('i').shape, &indices = m.op().operand(1)->type().shape;
  const size_t added = indices.size() - given.size();
  for (size_t d = 0; d < indices.size(); ++d) {
    const int64_t own = d < added ? 1 : given[d - added];
    if (d == axis ? own != indices[d] : own != 1 || indices[d] != m.type('x').shape[d])
      return false;
  }
  return true;
}

bool sums_slices(const Match& m) {
  return selects_slices(m) && m.op().attr<std::string>("reduction") == "sum";
}

bool writes_rows(const Match& m) {
  return selects_slices(m) && m.op().attr<std::string>("reduction") == "none" &&
         m.op().attr<int64_t>("axis") == 0;
}

Value* flat_indices(const Match& m) {
  return emit(m, "reshape", {m['i']}, {{"shape", Ints{m.type('i').elements()}}});
}

ir::Attrs axis_of_op(const Match& m) { return {{"axis", m.op().attr<int64_t>("axis")}}; }

const std::vector<Rewrite> kIndices = {
    {"gather(x, broadcast_to(i))", selects_slices,
     [](const Match& m) {
       return emit(m, "index_select", {m['x'], flat_indices(m)}, axis_of_op(m));
     }},
    {"scatter(x, broadcast_to(i), s)", sums_slices,
     [](const Match& m) {
       return emit(m, "index_add", {m['x'], flat_indices(m), m['s']}, axis_of_op(m));
     }},
    {"scatter(x, broadcast_to(i), s)", writes_rows,
     [](const Match& m) {
       return emit(m, "index_put", {m['x'], m['s'], flat_indices(m)}, {{"accumulate", false}});
     }},
};

bool swaps_last_two(const Op& transpose) {
  Ints expected(transpose.attr<Ints>("permutation").size());
  if (expected.size() < 2) return false;
  std::iota(expected.begin(), expected.end(), 0);
  std::swap(expected[expected.size() - 1], expected[expected.size() - 2]);
  return expected == transpose.attr<Ints>("permutation");
}

Value* flip_flag(const Match& m, const char* flag) {
  ir::Attrs attrs = m.op().attrs();
  attrs.set(flag, !m.op().attr<bool>(flag));
  return emit(m, "matmul", {m['x'], m['y']}, attrs);
}

bool is_linear(const Match& m) {
  return m.type('w').rank() == 2 && m.op().attr<bool>("transpose_b") &&
         !m.op().attr<bool>("transpose_a");
}

// Returns the attributes of a product that a linear layer has as well.
ir::Attrs plan_of(const Op& product) {
  ir::Attrs attrs = product.attrs();
  attrs.erase("transpose_a");
  attrs.erase("transpose_b");
  return attrs;
}

bool is_bias(const Match& m) {
  const Type& bias = m.type('b');
  return bias.rank() == 1 && bias.shape[0] == m.result_type().shape.back() && m.has_one_use(1) &&
         m.result_type() == m.op(1).result()->type();
}

const std::vector<Rewrite> kProducts = {
    {"matmul(transpose(x), y)", [](const Match& m) { return swaps_last_two(m.op(1)); },
     [](const Match& m) { return flip_flag(m, "transpose_a"); }},
    {"matmul(x, transpose(y))", [](const Match& m) { return swaps_last_two(m.op(1)); },
     [](const Match& m) { return flip_flag(m, "transpose_b"); }},
    {"matmul(x, w)", is_linear,
     [](const Match& m) { return emit(m, "linear", {m['x'], m['w']}, plan_of(m.op())); }},
    {"add(linear(x, w), b)", is_bias,
     [](const Match& m) { return emit(m, "linear", {m['x'], m['w'], m['b']}, plan_of(m.op(1))); }},
};

bool is_over_classes(const Match& m) {
  const int64_t classes = m.type('x').rank() == 1 ? 0 : 1;
  return m.op(1).attr<int64_t>("axis") == classes && m.has_one_use(1);
}

Value* cross_entropy(const Match& m) {
  return m.builder
      .emit("softmax_cross_entropy", {m['x'], m['t'], m.op().operand(2)},
            {{"reduction", m.op().attr<std::string>("reduction")},
             {"ignore_index", m.op().attr<int64_t>("ignore_index")}})
      ->result(0);
}

const std::vector<Rewrite> kLosses = {
    {"nll_loss(log_softmax(x), t, ...)", is_over_classes, cross_entropy},
};

Value* scale_and_shift(const Match& m) {
  const Op& op = m.op();
  const Op* factors = m.builder.emit("batch_norm_factors",
                                     {op.operand(1), op.operand(2), op.operand(3), op.operand(4)},
                                     {{"eps", op.attr<double>("eps")}});
  Ints shape(m.result_type().shape.size(), 1);
  shape[1] = m.result_type().shape[1];
  auto per_channel = [&](Value* vector) {
    return emit(m, "reshape", {vector}, {{"shape", shape}});
  };
  return emit(m, "scale_shift",
              {op.operand(0), per_channel(factors->result(0)), per_channel(factors->result(1))});
}

const std::vector<Rewrite> kNorms = {
    {"batch_norm_inference", nullptr, scale_and_shift},
};

}  // namespace

void expand_batch_norms(ir::Module& module) { apply_rewrites(module, kNorms); }

void canonicalise(ir::Module& module) {
  static const std::vector<Rewrite> rows = [] {
    std::vector<Rewrite> all;
    for (const auto* family : {&kArithmetic, &kCopies, &kSlices, &kIndices, &kProducts, &kLosses}) {
      all.insert(all.end(), family->begin(), family->end());
    }
    return all;
  }();
  apply_rewrites(module, rows);
}

}  // namespace poptorch::transforms
