// The table that the kernel files add to, and access to a call's tensors.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "reference/convert.hpp"
#include "reference/reference.hpp"

namespace poptorch::reference {

using ir::DType;
using ir::Ints;
using ir::Shape;
using ir::Type;
using Doubles = std::vector<double>;
using Integers = std::vector<int64_t>;
using Table = std::map<std::string, Kernel, std::less<>>;

void add_elementwise_kernels(Table& table);
void add_matmul_kernels(Table& table);
void add_conv_kernels(Table& table);
void add_pool_kernels(Table& table);
void add_roi_kernels(Table& table);
void add_norm_kernels(Table& table);
void add_softmax_kernels(Table& table);
void add_loss_kernels(Table& table);
void add_beam_search_kernels(Table& table);
void add_point_kernels(Table& table);
void add_reduce_kernels(Table& table);
void add_order_kernels(Table& table);
void add_shape_kernels(Table& table);
void add_index_kernels(Table& table);
void add_attention_kernels(Table& table);
void add_rnn_kernels(Table& table);
void add_random_kernels(Table& table);
void add_check_kernels(Table& table);
void add_print_kernels(Table& table);
void add_state_kernels(Table& table);

// Rounds elements of a half type `dtype` at random, by the words of one stream of the op.
void round_at_random(DType dtype, Doubles& values, const RandomKey& key, uint64_t stream = 0);

// One call, with conversions to and from working types.
class Args {
 public:
  explicit Args(const KernelCall& call) : call_(call) {}

  bool has(size_t i) const { return i < call_.inputs.size() && call_.inputs[i].has_value(); }
  size_t input_count() const { return call_.inputs.size(); }
  const Type& type(size_t i) const { return *call_.inputs[i]; }
  const Shape& shape(size_t i) const { return call_.inputs[i]->shape; }
  const Type& result(size_t i = 0) const { return call_.outputs[i]; }
  const RandomKey& random() const { return call_.random; }
  std::string_view op() const;

  std::byte* data(size_t i) const { return call_.buffers[i]; }
  std::byte* result_data(size_t i = 0) const { return call_.buffers[call_.inputs.size() + i]; }

  Doubles in(size_t i) const { return to_doubles(type(i).dtype, data(i), type(i).elements()); }
  Integers ints(size_t i) const { return to_integers(type(i).dtype, data(i), type(i).elements()); }
  // Returns operand i, broadcast to `shape`.
  Doubles in(size_t i, const Shape& shape) const { return spread(in(i), this->shape(i), shape); }
  Integers ints(size_t i, const Shape& shape) const {
    return spread(ints(i), this->shape(i), shape);
  }
  // Returns the only element of an operand.
  double scalar(size_t i) const { return in(i)[0]; }

  void out(size_t i, const Doubles& values) const {
    if (std::byte* to = result_data(i)) from_doubles(result(i).dtype, values.data(), count(i), to);
  }
  void out(size_t i, const Integers& values) const {
    if (std::byte* to = result_data(i)) from_integers(result(i).dtype, values.data(), count(i), to);
  }
  // Overwrites operand i.
  void write(size_t i, const Doubles& values) const {
    from_doubles(type(i).dtype, values.data(), type(i).elements(), data(i));
  }

  template <typename T>
  const T& attr(ir::Symbol name) const {
    return std::get<T>(attr_value(name));
  }
  const ir::Attr& attr_value(ir::Symbol name) const;  // given, or the row's default
  bool flag(const char* name) const { return attr<bool>(name); }
  int64_t integer(const char* name) const { return attr<int64_t>(name); }
  double number(const char* name) const { return attr<double>(name); }
  const Ints& list(const char* name) const { return attr<Ints>(name); }
  const std::string& text(const char* name) const { return attr<std::string>(name); }

 private:
  int64_t count(size_t i) const { return result(i).elements(); }
  template <typename Values>
  static Values spread(Values values, const Shape& from, const Shape& to);

  const KernelCall& call_;
};

// Visits the elements of `shape` in row-major order: visit(i, offset), where `offset` is the
// element's place in a tensor with `strides`.
template <typename Visit>
void for_each_offset(const Shape& shape, const Shape& strides, Visit visit) {
  const int64_t count = ir::element_count(shape);
  if (count == 0) return;
  const size_t rank = shape.size();
  if (rank == 0) return visit(int64_t{0}, int64_t{0});
  Shape at(rank, 0);
  const int64_t inner = shape[rank - 1], step = strides[rank - 1];
  int64_t base = 0;
  for (int64_t i = 0; i < count; i += inner) {
    for (int64_t k = 0; k < inner; ++k) visit(i + k, base + k * step);
    for (size_t d = rank - 1; d-- > 0;) {
      base += strides[d];
      if (++at[d] < shape[d]) break;
      base -= strides[d] * shape[d];
      at[d] = 0;
    }
  }
}

// Returns strides that read a dense tensor of shape `from` as if broadcast to `to`.
inline Shape broadcast_strides(const Shape& from, const Shape& to) {
  Shape strides(to.size(), 0);
  const Shape dense = ir::row_major_strides(from);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[lead + i] = from[i] == 1 ? 0 : dense[i];
  return strides;
}

template <typename Values>
Values Args::spread(Values values, const Shape& from, const Shape& to) {
  if (from == to) return values;
  Values out(static_cast<size_t>(ir::element_count(to)));
  for_each_offset(to, broadcast_strides(from, to),
                  [&](int64_t i, int64_t offset) { out[i] = values[offset]; });
  return out;
}

// A dense shape seen around one axis: outer × size × inner.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
  AxisView(const Shape& shape, int64_t axis) {
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto d = static_cast<int64_t>(i);
      (d < axis ? outer : d == axis ? size : inner) *= shape[i];
    }
  }
  int64_t at(int64_t o, int64_t i, int64_t in) const { return (o * size + i) * inner + in; }
};

}  // namespace poptorch::reference
