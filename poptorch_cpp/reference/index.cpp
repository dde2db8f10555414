// Kernels that read and write by index. An index out of range reads zeros and writes nothing.
#include <algorithm>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// Copies `run` bytes for every move {from, to} in blocks of that size. from < 0: writes zeros; to <
// 0: does nothing.
struct Mover {
  const std::byte* from;
  std::byte* to;
  int64_t run;
  void operator()(int64_t source, int64_t target) const {
    if (target < 0 || run == 0) return;
    if (source < 0) {
      std::memset(to + target * run, 0, static_cast<size_t>(run));
    } else {
      std::memcpy(to + target * run, from + source * run, static_cast<size_t>(run));
    }
  }
};

int64_t element_bytes(const Args& a) { return ir::size_of(a.type(0).dtype); }
int64_t in_range(int64_t index, int64_t size) { return index >= 0 && index < size ? index : -1; }

void copy_first(const Args& a) {
  std::memmove(a.result_data(), a.data(0), static_cast<size_t>(a.result().bytes()));
}

// Computes operand `into` plus values[k] at the places place(k); -1: nowhere. Sums are in order.
template <typename Place>
void add_at(const Args& a, const Doubles& values, Doubles into, Place place) {
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t at = place(static_cast<int64_t>(k));
    if (at >= 0) into[at] += values[k];
  }
  a.out(0, into);
}

void embedding(const KernelCall& call) {
  const Args a(call);
  const int64_t rows = a.shape(0)[0];
  const Mover move{a.data(0), a.result_data(), a.shape(0)[1] * element_bytes(a)};
  const Integers indices = a.ints(1);
  for (size_t i = 0; i < indices.size(); ++i) {
    move(in_range(indices[i], rows), static_cast<int64_t>(i));
  }
}

void embedding_grad(const KernelCall& call) {
  const Args a(call);
  const int64_t rows = a.integer("rows"), padding = a.integer("padding_index");
  const int64_t width = a.result().shape[1];
  const Integers indices = a.ints(1);
  add_at(a, a.in(0), Doubles(static_cast<size_t>(rows * width), 0.0), [&](int64_t k) {
    const int64_t row = indices[k / width];
    return row == padding || in_range(row, rows) < 0 ? -1 : row * width + k % width;
  });
}

// Returns, for every element k of the indices, the place in operand 0 (torch.gather), or -1.
Integers element_places(const Args& a) {
  const AxisView view(a.shape(0), a.integer("axis"));
  const Integers indices = a.ints(1);
  Integers places(indices.size());
  const auto axis = static_cast<size_t>(a.integer("axis"));
  Shape strides = ir::row_major_strides(a.shape(0));
  const int64_t along = strides[axis];
  strides[axis] = 0;
  for_each_offset(a.shape(1), strides, [&](int64_t k, int64_t offset) {
    const int64_t index = in_range(indices[k], view.size);
    places[k] = index < 0 ? -1 : offset + index * along;
  });
  return places;
}

void gather(const KernelCall& call) {
  const Args a(call);
  const Mover move{a.data(0), a.result_data(), element_bytes(a)};
  const Integers places = element_places(a);
  for (size_t k = 0; k < places.size(); ++k) move(places[k], static_cast<int64_t>(k));
}

// NaN is greater than every number.
template <typename T>
T greatest(T a, T b) {
  return a >= b || a != a ? a : b;
}
template <typename T>
T least(T a, T b) {
  return a <= b || a != a ? a : b;
}

template <typename Values>
void combine_at(const Args& a, Values x, const Values& src, const Integers& places) {
  const std::string& how = a.text("reduction");
  for (size_t k = 0; k < places.size(); ++k) {
    if (places[k] < 0) continue;
    auto& value = x[places[k]];
    value = how == "sum"    ? value + src[k]
            : how == "prod" ? value * src[k]
            : how == "max"  ? greatest(value, src[k])
                            : least(value, src[k]);
  }
  a.out(0, x);
}

void scatter(const KernelCall& call) {
  const Args a(call);
  const Integers places = element_places(a);
  if (a.text("reduction") == "none") {
    copy_first(a);
    const Mover move{a.data(2), a.result_data(), element_bytes(a)};
    for (size_t k = 0; k < places.size(); ++k) move(static_cast<int64_t>(k), places[k]);
  } else if (ir::is_float(a.type(0).dtype)) {
    combine_at(a, a.in(0), a.in(2), places);
  } else {
    combine_at(a, a.ints(0), a.ints(2), places);
  }
}

void index_select(const KernelCall& call) {
  const Args a(call);
  const AxisView from(a.shape(0), a.integer("axis"));
  const Mover move{a.data(0), a.result_data(), from.inner * element_bytes(a)};
  const Integers indices = a.ints(1);
  const auto count = static_cast<int64_t>(indices.size());
  for (int64_t o = 0; o < from.outer; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = in_range(indices[i], from.size);
      move(index < 0 ? -1 : o * from.size + index, o * count + i);
    }
  }
}

void index_add(const KernelCall& call) {
  const Args a(call);
  const AxisView to(a.shape(0), a.integer("axis"));
  const Integers indices = a.ints(1);
  const auto count = static_cast<int64_t>(indices.size());
  add_at(a, a.in(2), a.in(0), [&](int64_t k) {
    const int64_t inner = k % to.inner, i = k / to.inner % count, o = k / to.inner / count;
    const int64_t index = in_range(indices[i], to.size);
    return index < 0 ? -1 : to.at(o, index, inner);
  });
}

// Returns the blocks of x that the index tensors from operand `first` on select along the leading
// axes of operand 0. Each element of their broadcast shape selects one, or -1. `run` is the block's
// elements.
Integers block_places(const Args& a, size_t first, int64_t& run) {
  const size_t count = a.input_count() - first;
  const Shape& x = a.shape(0);
  Shape shape;
  for (size_t i = 0; i < count; ++i) shape = *ir::broadcast(shape, a.shape(first + i));
  Integers places(static_cast<size_t>(ir::element_count(shape)), 0);
  for (size_t i = 0; i < count; ++i) {
    const Integers indices = a.ints(first + i, shape);
    for (size_t k = 0; k < places.size(); ++k) {
      const int64_t index = in_range(indices[k], x[i]);
      places[k] = places[k] < 0 || index < 0 ? -1 : places[k] * x[i] + index;
    }
  }
  run = ir::element_count(Shape(x.begin() + static_cast<int64_t>(count), x.end()));
  return places;
}

void index(const KernelCall& call) {
  const Args a(call);
  int64_t run = 0;
  const Integers places = block_places(a, 1, run);
  const Mover move{a.data(0), a.result_data(), run * element_bytes(a)};
  for (size_t k = 0; k < places.size(); ++k) move(places[k], static_cast<int64_t>(k));
}

void index_put(const KernelCall& call) {
  const Args a(call);
  int64_t run = 0;
  const Integers places = block_places(a, 2, run);
  if (a.flag("accumulate")) {
    return add_at(a, a.in(1), a.in(0), [&](int64_t k) {
      const int64_t place = places[k / run];
      return place < 0 ? -1 : place * run + k % run;
    });
  }
  copy_first(a);
  const Mover move{a.data(1), a.result_data(), run * element_bytes(a)};
  for (size_t k = 0; k < places.size(); ++k) move(static_cast<int64_t>(k), places[k]);
}

void one_hot(const KernelCall& call) {
  const Args a(call);
  const int64_t classes = a.integer("classes");
  const Integers indices = a.ints(0);
  Integers y(static_cast<size_t>(a.result().elements()), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t at = in_range(indices[i], classes);
    if (at >= 0) y[i * static_cast<size_t>(classes) + static_cast<size_t>(at)] = 1;
  }
  a.out(0, y);
}

// Returns place `i` of a window that begins at `start` and wraps past the end of an axis.
int64_t wrapped(int64_t start, int64_t i, int64_t size) {
  return ((start + i) % size + size) % size;
}

void dynamic_slice(const KernelCall& call) {
  const Args a(call);
  const AxisView from(a.shape(0), a.integer("axis")), to(a.result().shape, a.integer("axis"));
  const Mover move{a.data(0), a.result_data(), from.inner * element_bytes(a)};
  const int64_t start = a.ints(1)[0];
  for (int64_t o = 0; o < to.outer; ++o) {
    for (int64_t i = 0; i < to.size; ++i) {
      move(o * from.size + wrapped(start, i, from.size), o * to.size + i);
    }
  }
}

void dynamic_update(const KernelCall& call) {
  const Args a(call);
  copy_first(a);
  const AxisView to(a.shape(0), a.integer("axis")), from(a.shape(1), a.integer("axis"));
  const Mover move{a.data(1), a.result_data(), to.inner * element_bytes(a)};
  const int64_t start = a.ints(2)[0];
  for (int64_t o = 0; o < to.outer; ++o) {
    for (int64_t i = 0; i < from.size; ++i) {
      move(o * from.size + i, o * to.size + wrapped(start, i, to.size));
    }
  }
}

}  // namespace

void add_index_kernels(Table& table) {
  table["embedding"] = {embedding, true};
  table["embedding_grad"] = {embedding_grad};
  table["gather"] = {gather, true};
  table["scatter"] = {scatter};
  table["index_select"] = {index_select, true};
  table["index_add"] = {index_add};
  table["index"] = {index, true};
  table["index_put"] = {index_put};
  table["one_hot"] = {one_hot, true};
  table["dynamic_slice"] = {dynamic_slice, true};
  table["dynamic_update"] = {dynamic_update, true};
}

}  // namespace poptorch::reference
