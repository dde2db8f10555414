// Kernels that move elements: copies of bytes, for any dtype.
#include <algorithm>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

template <size_t size>
struct Element {
  std::byte bytes[size];
};

// Calls body(a typed null pointer) with an element of `bytes` bytes.
template <typename Body>
void with_element(int64_t bytes, Body body) {
  switch (bytes) {
    case 1:
      return body(static_cast<Element<1>*>(nullptr));
    case 2:
      return body(static_cast<Element<2>*>(nullptr));
    case 4:
      return body(static_cast<Element<4>*>(nullptr));
    case 8:
      return body(static_cast<Element<8>*>(nullptr));
    default:
      return body(static_cast<Element<16>*>(nullptr));
  }
}

// Computes to[i] = from[first + offset of element i of `shape` under `strides`].
void gather_strided(const std::byte* from, std::byte* to, int64_t bytes, const Shape& shape,
                    const Shape& strides, int64_t first) {
  with_element(bytes, [&]<typename T>(T*) {
    const T* in = reinterpret_cast<const T*>(from) + first;
    T* out = reinterpret_cast<T*>(to);
    for_each_offset(shape, strides, [&](int64_t i, int64_t offset) { out[i] = in[offset]; });
  });
}

void scatter_strided(const std::byte* from, std::byte* to, int64_t bytes, const Shape& shape,
                     const Shape& strides, int64_t first) {
  with_element(bytes, [&]<typename T>(T*) {
    const T* in = reinterpret_cast<const T*>(from);
    T* out = reinterpret_cast<T*>(to) + first;
    for_each_offset(shape, strides, [&](int64_t i, int64_t offset) { out[offset] = in[i]; });
  });
}

int64_t element_bytes(const Args& a) { return ir::size_of(a.type(0).dtype); }

void reshape(const KernelCall& call) {
  const Args a(call);
  if (a.result_data() != a.data(0)) {
    std::memcpy(a.result_data(), a.data(0), static_cast<size_t>(a.result().bytes()));
  }
}

void transpose(const KernelCall& call) {
  const Args a(call);
  const Shape dense = ir::row_major_strides(a.shape(0));
  Shape strides;
  for (int64_t axis : a.list("permutation")) strides.push_back(dense[axis]);
  gather_strided(a.data(0), a.result_data(), element_bytes(a), a.result().shape, strides, 0);
}

void broadcast_to(const KernelCall& call) {
  const Args a(call);
  const Shape& to = a.result().shape;
  gather_strided(a.data(0), a.result_data(), element_bytes(a), to,
                 broadcast_strides(a.shape(0), to), 0);
}

void reverse(const KernelCall& call) {
  const Args a(call);
  Shape strides = ir::row_major_strides(a.shape(0));
  int64_t first = 0;
  if (a.result().elements() == 0) return;
  ir::Ints axes = a.list("axes");
  if (a.shape(0).empty()) axes.clear();  // a scalar does not have an axis 0
  for (int64_t axis : axes) {
    int64_t& stride = strides[axis];
    first += stride * (a.shape(0)[axis] - 1);
    stride = -stride;
  }
  gather_strided(a.data(0), a.result_data(), element_bytes(a), a.shape(0), strides, first);
}

void concat(const KernelCall& call) {
  const Args a(call);
  const AxisView to(a.result().shape, a.integer("axis"));
  const int64_t bytes = element_bytes(a);
  int64_t begin = 0;
  for (size_t i = 0; i < a.input_count(); ++i) {
    const AxisView from(a.shape(i), a.integer("axis"));
    const int64_t run = from.size * from.inner * bytes;
    for (int64_t o = 0; o < to.outer && run > 0; ++o) {
      std::memcpy(a.result_data() + to.at(o, begin, 0) * bytes, a.data(i) + o * run,
                  static_cast<size_t>(run));
    }
    begin += from.size;
  }
}

// Strides and first element of the slice of a dense tensor.
struct Slice {
  Shape strides;
  int64_t first = 0;
  Slice(const Args& a, const Shape& shape) : strides(ir::row_major_strides(shape)) {
    for (size_t i = 0; i < shape.size(); ++i) {
      first += a.list("starts")[i] * strides[i];
      strides[i] *= a.list("steps")[i];
    }
  }
};

void slice(const KernelCall& call) {
  const Args a(call);
  const Slice part(a, a.shape(0));
  gather_strided(a.data(0), a.result_data(), element_bytes(a), a.result().shape, part.strides,
                 part.first);
}

void insert_slice(const KernelCall& call) {
  const Args a(call);
  reshape(call);
  const Slice part(a, a.shape(0));
  scatter_strided(a.data(1), a.result_data(), element_bytes(a), a.shape(1), part.strides,
                  part.first);
}

// Returns the source of element `i` of a padded axis whose original has `size` elements; -1: none.
int64_t padded_source(const std::string& mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == "constant") return -1;
  if (mode == "reflect") return i < 0 ? -i : 2 * (size - 1) - i;
  if (mode == "circular") return i < 0 ? i + size : i - size;
  return std::clamp<int64_t>(i, 0, size - 1);  // replicate
}

// Visits every element of the padded shape, with the element of `inner` that it copies, or -1.
template <typename Visit>
void for_each_padded(const Args& a, const Shape& inner, const Shape& outer, Visit visit) {
  std::vector<Integers> sources(inner.size());
  const Shape strides = ir::row_major_strides(inner);
  for (size_t d = 0; d < inner.size(); ++d) {
    for (int64_t i = 0; i < outer[d]; ++i) {
      sources[d].push_back(padded_source(a.text("mode"), i - a.list("low")[d], inner[d]));
    }
  }
  Shape at(outer.size(), 0);
  for (int64_t i = 0; i < ir::element_count(outer); ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size() && from >= 0; ++d) {
      const int64_t place = sources[d][at[d]];
      from = place < 0 ? -1 : from + place * strides[d];
    }
    visit(i, from);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == outer[d];) at[d] = 0;
  }
}

void pad(const KernelCall& call) {
  const Args a(call);
  std::byte fill[16] = {};
  if (a.number("value") != 0) {
    const double value = a.number("value");
    from_doubles(a.result().dtype, &value, 1, fill);
  }
  with_element(element_bytes(a), [&]<typename T>(T*) {
    const T* in = reinterpret_cast<const T*>(a.data(0));
    T* out = reinterpret_cast<T*>(a.result_data());
    T value;
    std::memcpy(&value, fill, sizeof(T));
    for_each_padded(a, a.shape(0), a.result().shape,
                    [&](int64_t i, int64_t from) { out[i] = from < 0 ? value : in[from]; });
  });
}

void pad_grad(const KernelCall& call) {
  const Args a(call);
  const Doubles dy = a.in(0);
  Doubles dx(static_cast<size_t>(a.result().elements()), 0.0);
  for_each_padded(a, a.result().shape, a.shape(0), [&](int64_t i, int64_t from) {
    if (from >= 0) dx[from] += dy[i];
  });
  a.out(0, dx);
}

void constant(const KernelCall& call) {
  const Args a(call);
  const auto& literal = a.attr<ir::Literal>("value");
  std::memcpy(a.result_data(), literal.data(), static_cast<size_t>(a.result().bytes()));
}

void iota(const KernelCall& call) {
  const Args a(call);
  const double start = a.number("start"), step = a.number("step");
  Doubles y(static_cast<size_t>(a.integer("size")));
  for (size_t i = 0; i < y.size(); ++i) y[i] = start + static_cast<double>(i) * step;
  a.out(0, y);
}

}  // namespace

void add_shape_kernels(Table& table) {
  table["reshape"] = {reshape, true};
  table["transpose"] = {transpose, true};
  table["broadcast_to"] = {broadcast_to, true};
  table["reverse"] = {reverse, true};
  table["concat"] = {concat, true};
  table["slice"] = {slice, true};
  table["insert_slice"] = {insert_slice, true};
  table["pad"] = {pad, true};
  table["pad_grad"] = {pad_grad};
  table["constant"] = {constant, true};
  table["iota"] = {iota, true};
}

}  // namespace poptorch::reference
