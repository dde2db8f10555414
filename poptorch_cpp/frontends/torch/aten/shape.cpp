// aten rows that move elements. Views (transpose, slice, expand, ...) are not here: the tracer
// handles them itself.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

Values reshaped(Call& c) {
  const TensorValue x = c.tensor(0);
  Shape shape = c.ints(size_t{1});
  int64_t known = 1;
  for (const int64_t size : shape) known *= size == -1 ? 1 : size;
  for (int64_t& size : shape) {
    if (size == -1) size = x.value->type().elements() / known;
  }
  return {{c.reshape(x.value, shape), x.dtype}};
}

// Returns the tensors of a list cast to their common type; torch skips legacy empty ones earlier.
std::vector<Value*> common_type(Call& c, DType& dtype) {
  const auto xs = c.tensors(0);
  dtype = xs.at(0).dtype;
  for (const auto& x : xs) {
    if (x.dtype == dtype) continue;
    const bool wider = ir::is_float(x.dtype) != ir::is_float(dtype)
                           ? ir::is_float(x.dtype)
                           : (dtype == DType::kBool || (x.dtype != DType::kBool &&
                                                        ir::size_of(x.dtype) > ir::size_of(dtype)));
    if (wider) dtype = x.dtype;
  }
  std::vector<Value*> result;
  for (const auto& x : xs) result.push_back(c.cast(x.value, dtype));
  return result;
}

Values cat(Call& c) {
  DType dtype;
  auto xs = common_type(c, dtype);
  // Empty tensors only affect the dtype.
  std::erase_if(xs, [](const Value* x) { return x->type().elements() == 0; });
  if (xs.empty()) return {};
  const int64_t axis = c.axis(c.integer("dim", 0), xs[0]->type().rank());
  return {{c.emit("concat", xs, {{"axis", axis}}), dtype}};
}

Values stack(Call& c) {
  DType dtype;
  auto xs = common_type(c, dtype);
  Shape shape = xs[0]->type().shape;
  const int64_t axis = c.axis(c.integer("dim", 0), xs[0]->type().rank() + 1);
  shape.insert(shape.begin() + axis, 1);
  for (Value*& x : xs) x = c.reshape(x, shape);
  return {{c.emit("concat", xs, {{"axis", axis}}), dtype}};
}

Values repeat(Call& c) {
  const TensorValue x = c.tensor(0);
  const Ints repeats = c.ints("repeats");
  Shape shape = x.shape();
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  Shape split, spread, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    split.insert(split.end(), {1, shape[i]});
    spread.insert(spread.end(), {repeats[i], shape[i]});
    joined.push_back(repeats[i] * shape[i]);
  }
  return {{c.reshape(c.broadcast(c.reshape(x.value, split), spread), joined), x.dtype}};
}

Values flip(Call& c) {
  const TensorValue x = c.tensor(0);
  if (!c.given("dims") || c.ints("dims").empty()) return {{c.emit("identity", {x.value}), x.dtype}};
  return {{c.emit("reverse", {x.value}, {{"axes", c.axes("dims", x.rank())}}), x.dtype}};
}

Val roll_axis(Call& c, Val x, int64_t axis, int64_t shift) {
  const int64_t size = x.type().shape[axis];
  shift = ((shift % size) + size) % size;
  if (shift == 0) return x;
  const Val tail = c.slice(x, axis, size - shift, size);
  return c.emit("concat", {tail, c.slice(x, axis, 0, size - shift)}, {{"axis", axis}});
}

Values roll(Call& c) {
  const TensorValue x = c.tensor(0);
  const Ints shifts = c.ints("shifts"), dims = c.ints("dims");
  if (x.rank() == 0 && !dims.empty()) return {};
  if (shifts.size() != std::max<size_t>(dims.size(), 1)) {
    c.fail(support::str("needs a shift for each of ", dims.size(), " dims, but has ", shifts.size(),
                        "."));
  }
  if (dims.empty()) {
    const Val flat = c.reshape(x.value, {x.value->type().elements()});
    return {{c.reshape(roll_axis(c, flat, 0, shifts.at(0)), x.shape()), x.dtype}};
  }
  Val result = c.val(x.value);
  for (size_t i = 0; i < dims.size(); ++i) {
    result = roll_axis(c, result, c.axis(dims[i], x.rank()), shifts.at(i));
  }
  return {{result, x.dtype}};
}

// Makes the row of padding. Torch lists paddings from the last axis, as (low, high) pairs. Negative
// ones cut; the generic op handles those that cut a whole dimension away.
Rule pad(std::string mode) {
  return [mode](Call& c) -> Values {
    const TensorValue given = c.tensor(0);
    const Ints amounts = c.ints(size_t{1});
    const int64_t rank = given.rank();
    Ints low(rank, 0), high(rank, 0), starts(rank, 0), stops(given.shape()), steps(rank, 1);
    bool cuts = false, pads = false;
    for (size_t i = 0; i * 2 + 1 < amounts.size(); ++i) {
      const int64_t axis = rank - 1 - static_cast<int64_t>(i);
      low[axis] = std::max<int64_t>(amounts[2 * i], 0);
      high[axis] = std::max<int64_t>(amounts[2 * i + 1], 0);
      starts[axis] = std::max<int64_t>(-amounts[2 * i], 0);
      stops[axis] -= std::max<int64_t>(-amounts[2 * i + 1], 0);
      if (stops[axis] <= starts[axis]) return {};
      cuts |= amounts[2 * i] < 0 || amounts[2 * i + 1] < 0;
      pads |= low[axis] > 0 || high[axis] > 0;
    }
    Val x = c.val(given.value);
    if (cuts) x = c.emit("slice", {x}, {{"starts", starts}, {"stops", stops}, {"steps", steps}});
    if (pads) {
      const double value = c.real("value", 0.0);
      x = c.emit("pad", {x}, {{"low", low}, {"high", high}, {"value", value}, {"mode", mode}});
    }
    return {{cuts || pads ? x : c.emit("identity", {x}), given.dtype}};
  };
}

// Makes the row of tril or triu: keeps elements on the wanted side of the diagonal.
Rule triangle(std::string keeps) {
  return [keeps](Call& c) -> Values {
    const TensorValue x = c.tensor(0);
    const int64_t rows = x.shape().at(x.rank() - 2), columns = x.shape().at(x.rank() - 1);
    const auto iota = [&](int64_t size) {
      return c.emit("iota", {}, {{"dtype", DType::kI32}, {"size", size}});
    };
    const Val difference = iota(columns) - c.reshape(iota(rows), {rows, 1});
    const Val diagonal = c.scalar(DType::kI32, static_cast<double>(c.integer("diagonal", 0)));
    const Val kept = c.emit(keeps, {difference, diagonal});
    return {{c.emit("select", {kept, x.value, c.scalar(x.dtype, 0)}), x.dtype}};
  };
}

Values pixel_shuffle(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t r = c.integer("upscale_factor"), rank = x.rank();
  if (r < 1 || rank < 3) return {};
  const int64_t channels = x.shape()[rank - 3] / (r * r);
  const int64_t h = x.shape()[rank - 2], w = x.shape()[rank - 1];
  int64_t batch = 1;
  for (int64_t i = 0; i < rank - 3; ++i) batch *= x.shape()[i];
  Shape shape(x.shape().begin(), x.shape().end() - 3);
  shape.insert(shape.end(), {channels, h * r, w * r});
  const Val split = c.reshape(x.value, {batch, channels, r, r, h, w});
  return {{c.reshape(c.transpose(split, {0, 1, 4, 2, 5, 3}), shape), x.dtype}};
}

Values pixel_unshuffle(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t r = c.integer("downscale_factor"), rank = x.rank();
  if (r < 1 || rank < 3) return {};
  const int64_t channels = x.shape()[rank - 3];
  const int64_t h = x.shape()[rank - 2] / r, w = x.shape()[rank - 1] / r;
  int64_t batch = 1;
  for (int64_t i = 0; i < rank - 3; ++i) batch *= x.shape()[i];
  Shape shape(x.shape().begin(), x.shape().end() - 3);
  shape.insert(shape.end(), {channels * r * r, h, w});
  const Val split = c.reshape(x.value, {batch, channels, h, r, w, r});
  return {{c.reshape(c.transpose(split, {0, 1, 3, 5, 2, 4}), shape), x.dtype}};
}

Values channel_shuffle(Call& c) {
  const TensorValue x = c.tensor(0);
  const int64_t groups = c.integer("groups");
  if (x.rank() < 3 || groups < 1 || x.shape()[1] % groups != 0) return {};
  const int64_t channels = x.shape()[1];
  const int64_t batch = x.shape()[0], elements = x.value->type().elements();
  if (elements == 0) return {{c.emit("identity", {x.value}), x.dtype}};
  const Val split = c.reshape(x.value, {batch, groups, channels / groups,
                                        elements / std::max<int64_t>(1, batch * channels)});
  return {{c.reshape(c.transpose(split, {0, 2, 1, 3}), x.shape()), x.dtype}};
}

// Turns by quarters from the first axis towards the second.
Values rot90(Call& c) {
  const TensorValue x = c.tensor(0);
  const Ints dims = c.given("dims") ? c.ints("dims") : Ints{0, 1};
  if (dims.size() != 2) return {};
  const Ints axes = {c.axis(dims[0], x.rank()), c.axis(dims[1], x.rank())};
  if (axes[0] == axes[1]) return {};
  const int64_t quarters = (c.integer("k", 1) % 4 + 4) % 4;
  auto reversed = [&](Ints which) { return c.emit("reverse", {x.value}, {{"axes", which}}); };
  if (quarters == 0) return {{c.emit("identity", {x.value}), x.dtype}};
  if (quarters == 2) return {{reversed(axes), x.dtype}};
  Ints order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axes[0]], order[axes[1]]);
  return {{c.transpose(reversed({axes[quarters == 1 ? 1 : 0]}), order), x.dtype}};
}

}  // namespace

void add_shape_rules(Rules& r) {
  r.add("view_copy", reshaped);
  r.add("_reshape_copy", reshaped);
  r.add("cat", cat);
  r.add("stack", stack);
  r.add("repeat", repeat);
  r.add("flip", flip);
  r.add("roll", roll);
  r.add("constant_pad_nd", pad("constant"));
  for (const char* rank : {"1d", "2d", "3d"}) {
    r.add(std::string("reflection_pad") + rank, pad("reflect"));
    r.add(std::string("replication_pad") + rank, pad("replicate"));
  }
  r.add("_pad_circular", pad("circular"));
  r.add("tril", triangle("le"));
  r.add("triu", triangle("ge"));
  r.add("pixel_shuffle", pixel_shuffle);
  r.add("pixel_unshuffle", pixel_unshuffle);
  r.add("channel_shuffle", channel_shuffle);
  r.add("rot90", rot90);
}

}  // namespace poptorch::frontend
