// Padding in its modes, its gradient, and one-hot rows. A table maps each position of a
// padded axis to its source; a row of the innermost axis is a run between two such edges.
#include <array>
#include <cstring>

#include "emulator/kernels/base/copy_run.hpp"
#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

// For each position of the padded axis, the position of the inner axis that it copies; -1: the
// value.
using Sources = std::vector<int64_t>;

Sources sources_of(const std::string& mode, int64_t low, int64_t padded, int64_t size) {
  Sources sources;
  for (int64_t i = -low; i < padded - low; ++i) {
    const bool inside = i >= 0 && i < size;
    const int64_t reflected = i < 0 ? -i : 2 * (size - 1) - i;
    sources.push_back(inside               ? i
                      : mode == "constant" ? -1
                      : mode == "reflect"  ? reflected
                      : mode == "circular" ? (i + size) % size
                                           : std::clamp<int64_t>(i, 0, size - 1));
  }
  return sources;
}

struct Padding {
  std::vector<Sources> axes;
  Shape inner, outer;
  int64_t begin = 0, end = 0;  // positions of the innermost axis that copy their own element
  Padding(const KernelRequest& request, Shape unpadded, Shape padded)
      : inner(std::move(unpadded)), outer(std::move(padded)) {
    const auto& low = request.attr<ir::Ints>("low");
    for (size_t d = 0; d < inner.size(); ++d) {
      axes.push_back(sources_of(request.attr<std::string>("mode"), low[d], outer[d], inner[d]));
    }
    begin = std::clamp<int64_t>(low.back(), 0, outer.back());
    end = std::clamp<int64_t>(low.back() + inner.back(), begin, outer.back());
  }
  int64_t rows(const Shape& shape) const { return ir::element_count(shape) / shape.back(); }
  // Returns the inner row that an outer row copies; -1: the value.
  int64_t source_of_row(int64_t row) const {
    int64_t from = 0, stride = 1;
    for (size_t d = inner.size() - 1; d-- > 0;) {
      const int64_t source = axes[d][row % outer[d]];
      if (source < 0) return -1;
      from += source * stride;
      stride *= inner[d], row /= outer[d];
    }
    return from;
  }
};

template <typename T>
class Pad final : public BoundKernel {
 public:
  Pad(const KernelRequest& request, const T& value)
      : p_(request, request.inputs[0]->shape, request.outputs[0].shape),
        value_(value),
        rows_(p_.rows(p_.outer)),
        ns_(20 + rows_ * (10 + p_.outer.back() / 8)),
        parts_(parts_for(ns_, rows_)) {
    for (int64_t row = 0; row < rows_; ++row) from_.push_back(p_.source_of_row(row));
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    // These are copies: as far as the compiler knows, a store could change a member.
    const Range rows = part_of(rows_, parts_, task);
    const int64_t *last = p_.axes.back().data(), *from = from_.data();
    const int64_t inner = p_.inner.back(), width = p_.outer.back();
    const int64_t begin = p_.begin, end = p_.end, first = end > begin ? last[begin] : 0;
    const T* const x = input_of<T>(args, 0);
    const T value = value_;
    T* y = buffer_of<T>(args, 1) + rows.begin * width;
    for (int64_t row = rows.begin; row < rows.end; ++row, y += width) {
      if (from[row] < 0) {
        std::fill_n(y, width, value);
        continue;
      }
      const T* copied = x + from[row] * inner;
      auto edge = [&](int64_t i) { y[i] = last[i] < 0 ? value : copied[last[i]]; };
#pragma GCC unroll 1
      for (int64_t i = 0; i < begin; ++i) edge(i);
      copy_run(copied + first, y + begin, end - begin);
#pragma GCC unroll 1
      for (int64_t i = end; i < width; ++i) edge(i);
    }
  }

 private:
  Padding p_;
  T value_;
  int64_t rows_, ns_, parts_;
  std::vector<int64_t> from_;  // the inner row of each outer row; -1: the value
};

// Computes dx: every row is the sum of the rows that copy it, in their order.
class PadGrad final : public BoundKernel {
 public:
  explicit PadGrad(const KernelRequest& request)
      : p_(request, request.outputs[0].shape, request.inputs[0]->shape),
        rows_(p_.rows(p_.inner)),
        ns_(20 + p_.rows(p_.outer) * p_.outer.back() / 4),
        parts_(parts_for(ns_, rows_)) {
    shown_by_.resize(static_cast<size_t>(rows_));
    for (int64_t row = 0; row < p_.rows(p_.outer); ++row) {
      const int64_t from = p_.source_of_row(row);
      if (from >= 0) shown_by_[from].push_back(row);
    }
  }
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range rows = part_of(rows_, parts_, task);
    const Sources& last = p_.axes.back();
    const int64_t width = p_.inner.back();
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float* dx = buffer_of<float>(args, 1) + row * width;
      std::fill_n(dx, width, 0.0f);
      for (int64_t from : shown_by_[row]) {
        const float* dy = input_of<float>(args, 0) + from * p_.outer.back();
        for (int64_t i = 0; i < p_.outer.back(); ++i) {
          const int64_t source = last[i];
          if (source >= 0) dx[source] += dy[i];
        }
      }
    }
  }

 private:
  Padding p_;
  int64_t rows_, ns_, parts_;
  std::vector<std::vector<int64_t>> shown_by_;
};

template <typename T>
T value_of(ir::DType dtype, double value) {
  T made{};
  if (value == 0) return made;
  const ir::Literal literal = ir::is_float(dtype)
                                  ? ir::Literal::scalar(dtype, value)
                                  : ir::Literal::scalar(dtype, static_cast<int64_t>(value));
  std::memcpy(&made, literal.data(), sizeof made);
  return made;
}

// Calls use(T) with an unsigned type of the element's size; nullptr for elements that a literal
// cannot hold.
template <typename Use>
std::unique_ptr<BoundKernel> by_size(ir::DType dtype, Use use) {
  if (ir::is_complex(dtype) || (ir::is_float(dtype) && ir::size_of(dtype) == 1)) return nullptr;
  return with_word(ir::size_of(dtype), use);
}

std::unique_ptr<BoundKernel> bind_pad(const KernelRequest& request) {
  const ir::Type& x = *request.inputs[0];
  if (x.elements() == 0 || request.outputs[0].elements() == 0 || x.rank() == 0) return nullptr;
  return by_size(x.dtype, [&]<typename T>(T) -> std::unique_ptr<BoundKernel> {
    return std::make_unique<Pad<T>>(request, value_of<T>(x.dtype, request.attr<double>("value")));
  });
}

std::unique_ptr<BoundKernel> bind_pad_grad(const KernelRequest& request) {
  const ir::Type& dy = *request.inputs[0];
  if (dy.dtype != ir::DType::kF32 || dy.elements() == 0 || dy.rank() == 0) return nullptr;
  if (request.outputs[0].elements() == 0) return nullptr;
  return std::make_unique<PadGrad>(request);
}

template <typename T>
class OneHot final : public BoundKernel {
 public:
  OneHot(const KernelRequest& request, const T& one)
      : rows_(request.inputs[0]->elements()),
        classes_(request.attr<int64_t>("classes")),
        one_(one),
        parts_(parts_for(estimated_ns(), rows_)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return rows_ * (4 + classes_ / 8); }
  void run(const KernelArgs& args, int, int task) const override {
    const Range rows = part_of(rows_, parts_, task);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      T* y = buffer_of<T>(args, 1) + row * classes_;
      std::fill_n(y, classes_, T{});
      const int64_t at = input_of<int32_t>(args, 0)[row];
      if (at >= 0 && at < classes_) y[at] = one_;
    }
  }

 private:
  int64_t rows_, classes_;
  T one_;
  int64_t parts_;
};

std::unique_ptr<BoundKernel> bind_one_hot(const KernelRequest& request) {
  const ir::DType dtype = request.outputs[0].dtype;
  return by_size(dtype, [&]<typename T>(T) -> std::unique_ptr<BoundKernel> {
    return std::make_unique<OneHot<T>>(request, value_of<T>(dtype, 1.0));
  });
}

}  // namespace

void add_pad_kernels(KernelTable& table) {
  table.add({.op = "pad", .bind = bind_moved<bind_pad>, .choose_layouts = choose_moved_layouts});
  table.add({.op = "pad_grad", .bind = bind_floats<bind_pad_grad>});
  table.add({.op = "one_hot", .bind = bind_one_hot});
}

}  // namespace poptorch::emulator
