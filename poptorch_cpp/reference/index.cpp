// Reading and writing by index tensors. An index out of range reads zero and writes nothing.
#include <algorithm>

#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

bool inside(double index, int64_t extent) {
  return index >= 0 && index < static_cast<double>(extent);
}

void embedding(Tensors& c) {
  const int64_t rows = c.shape(0)[0], width = c.shape(0)[1];
  for (size_t i = 0; i < c.in(1).size(); ++i) {
    if (!inside(c.in(1)[i], rows)) continue;
    auto from = c.in(0).begin() + static_cast<int64_t>(c.in(1)[i]) * width;
    std::copy(from, from + width, c.out().begin() + static_cast<int64_t>(i) * width);
  }
}

void embedding_grad(Tensors& c) {
  const int64_t rows = c.result().shape[0], width = c.result().shape[1];
  const double padding = static_cast<double>(c.integer("padding_index"));
  for (size_t i = 0; i < c.in(1).size(); ++i) {
    if (!inside(c.in(1)[i], rows) || c.in(1)[i] == padding) continue;
    for (int64_t j = 0; j < width; ++j) {
      c.out()[static_cast<int64_t>(c.in(1)[i]) * width + j] +=
          c.in(0)[static_cast<int64_t>(i) * width + j];
    }
  }
}

// Calls visit(flat index, position) for every element of `shape` in row-major order.
template <typename Visit>
void for_each_position(const Shape& shape, Visit visit) {
  Ints position(shape.size(), 0);
  const int64_t count = ir::element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    visit(i, position);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
}

// For each element of `indices` [same rank as x]: where in x it points along the axis, or -1.
std::vector<int64_t> pointed(Tensors& c, size_t indices) {
  const Shape& x = c.shape(0);
  const auto axis = static_cast<size_t>(c.integer("axis"));
  const Ints strides = ir::row_major_strides(x);
  std::vector<int64_t> out(c.in(indices).size(), -1);
  for_each_position(c.shape(indices), [&](int64_t i, const Ints& position) {
    if (!inside(c.in(indices)[i], x[axis])) return;
    int64_t at = 0;
    for (size_t d = 0; d < x.size(); ++d) {
      at += strides[d] * (d == axis ? static_cast<int64_t>(c.in(indices)[i]) : position[d]);
    }
    out[static_cast<size_t>(i)] = at;
  });
  return out;
}

void gather(Tensors& c) {
  const auto from = pointed(c, 1);
  for (size_t i = 0; i < from.size(); ++i) c.out()[i] = from[i] < 0 ? 0 : c.in(0)[from[i]];
}

void scatter(Tensors& c) {
  const auto& reduction = c.text("reduction");
  const auto to = pointed(c, 1);
  c.out() = c.in(0);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] < 0) continue;
    double &y = c.out()[to[i]], src = c.in(2)[i];
    if (reduction == "sum")
      y += src;
    else if (reduction == "prod")
      y *= src;
    else if (reduction == "max")
      y = std::max(y, src);
    else if (reduction == "min")
      y = std::min(y, src);
    else
      y = src;
  }
}

// visit(index of the slice element in x, in the selection) for every selected element.
template <typename Visit>
void for_each_selected(Tensors& c, const Shape& x, Visit visit) {
  const AxisView around(x, c.integer("axis"));
  const auto count = static_cast<int64_t>(c.in(1).size());
  for (int64_t outer = 0; outer < around.outer; ++outer) {
    for (int64_t i = 0; i < count; ++i) {
      if (!inside(c.in(1)[i], around.size)) continue;
      for (int64_t inner = 0; inner < around.inner; ++inner) {
        visit((outer * around.size + static_cast<int64_t>(c.in(1)[i])) * around.inner + inner,
              (outer * count + i) * around.inner + inner);
      }
    }
  }
}

void index_select(Tensors& c) {
  for_each_selected(c, c.shape(0), [&](int64_t x, int64_t y) { c.out()[y] = c.in(0)[x]; });
}

void index_add(Tensors& c) {
  c.out() = c.in(0);
  for_each_selected(c, c.shape(0), [&](int64_t x, int64_t y) { c.out()[x] += c.in(2)[y]; });
}

// For each element of x[indices...]: its place in x, or -1. Index operands begin at `first`.
std::vector<int64_t> fancy(Tensors& c, size_t first) {
  const Shape& x = c.shape(0);
  const size_t count = c.input_count() - first;
  Shape joined = c.shape(first);
  for (size_t i = first + 1; i < c.input_count(); ++i) {
    joined = *ir::broadcast(joined, c.shape(i));
  }
  const int64_t inner = ir::element_count(Shape(x.begin() + static_cast<int64_t>(count), x.end()));
  std::vector<int64_t> base(static_cast<size_t>(ir::element_count(joined)), 0);
  for (size_t k = 0; k < count; ++k) {
    const auto at = broadcast_indices(c.shape(first + k), joined);
    for (size_t i = 0; i < base.size(); ++i) {
      double index = c.in(first + k)[at[i]];
      bool bad = base[i] < 0 || !inside(index, x[k]);
      base[i] = bad ? -1 : base[i] * x[k] + static_cast<int64_t>(index);
    }
  }
  std::vector<int64_t> out;
  for (int64_t at : base) {
    for (int64_t i = 0; i < inner; ++i) out.push_back(at < 0 ? -1 : at * inner + i);
  }
  return out;
}

void index(Tensors& c) {
  const auto from = fancy(c, 1);
  for (size_t i = 0; i < from.size(); ++i) c.out()[i] = from[i] < 0 ? 0 : c.in(0)[from[i]];
}

void index_put(Tensors& c) {
  const bool accumulate = c.flag("accumulate");
  const auto to = fancy(c, 2);
  c.out() = c.in(0);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] >= 0) c.out()[to[i]] = (accumulate ? c.out()[to[i]] : 0) + c.in(1)[i];
  }
}

void one_hot(Tensors& c) {
  const int64_t classes = c.integer("classes");
  for (size_t i = 0; i < c.in(0).size(); ++i) {
    if (!inside(c.in(0)[i], classes)) continue;
    c.out()[static_cast<int64_t>(i) * classes + static_cast<int64_t>(c.in(0)[i])] = 1;
  }
}

// visit(index in the whole tensor, index in the part) for a part that begins at `start`, wrapping.
template <typename Visit>
void for_each_wrapped(const Shape& whole, const Shape& part, int64_t axis, double start,
                      Visit visit) {
  const AxisView all(whole, axis), some(part, axis);
  for (int64_t outer = 0; outer < all.outer; ++outer) {
    for (int64_t i = 0; i < some.size; ++i) {
      int64_t at = ((static_cast<int64_t>(start) + i) % all.size + all.size) % all.size;
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        visit((outer * all.size + at) * all.inner + inner,
              (outer * some.size + i) * all.inner + inner);
      }
    }
  }
}

void dynamic_slice(Tensors& c) {
  for_each_wrapped(c.shape(0), c.result().shape, c.integer("axis"), c.scalar(1),
                   [&](int64_t x, int64_t y) { c.out()[y] = c.in(0)[x]; });
}

void dynamic_update(Tensors& c) {
  c.out() = c.in(0);
  for_each_wrapped(c.shape(0), c.shape(1), c.integer("axis"), c.scalar(2),
                   [&](int64_t x, int64_t y) { c.out()[x] = c.in(1)[y]; });
}

}  // namespace

void add_index_kernels(Table& t) {
  t["embedding"] = {with_tensors<embedding>};
  t["embedding_grad"] = {with_tensors<embedding_grad>};
  t["gather"] = {with_tensors<gather>};
  t["scatter"] = {with_tensors<scatter>};
  t["index_select"] = {with_tensors<index_select>};
  t["index_add"] = {with_tensors<index_add>};
  t["index"] = {with_tensors<index>};
  t["index_put"] = {with_tensors<index_put>};
  t["one_hot"] = {with_tensors<one_hot>};
  t["dynamic_slice"] = {with_tensors<dynamic_slice>};
  t["dynamic_update"] = {with_tensors<dynamic_update>};
}

}  // namespace poptorch::reference
