// Searches along an axis, and the reductions that the float sums do not cover.
#include "emulator/kernels/sets/reduce/search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/loss/softmax_columns.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/short_rows.hpp"
#include "emulator/kernels/simd/lanes.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::DType;

// Returns the axes of a reduction where they are adjacent.
std::optional<std::pair<int64_t, int64_t>> neighbouring_axes(const KernelRequest& request) {
  ir::Ints axes = request.attr<ir::Ints>("axes");
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || axes.back() - axes.front() + 1 != std::ssize(axes)) return std::nullopt;
  return std::pair(axes.front(), axes.back());
}

// Returns whether x is to be found before y. NaN comes first.
template <bool greatest, typename T>
bool comes_first(T x, T y) {
  return vec::either(greatest ? x > y : x < y, x != x);
}

// Returns the index of the first element of the greatest or smallest value.
template <bool greatest, typename T>
int32_t first_of(const T* x, int64_t n) {
  constexpr int64_t kAtOnce = 64;
  T top = x[0];
  int64_t i = 0;
  if (n >= kAtOnce) {
    T tops[kAtOnce];
    std::copy_n(x, kAtOnce, tops);
    for (i = kAtOnce; i + kAtOnce <= n; i += kAtOnce) {
      for (int64_t k = 0; k < kAtOnce; ++k) {
        tops[k] = comes_first<greatest>(x[i + k], tops[k]) ? x[i + k] : tops[k];
      }
    }
    for (T t : tops) top = comes_first<greatest>(t, top) ? t : top;
  }
  for (; i < n; ++i) top = comes_first<greatest>(x[i], top) ? x[i] : top;
  const bool is_nan = top != top;
  auto found = [=](T v) { return vec::either(v == top, vec::both(is_nan, v != v)); };
  for (i = 0; i + kAtOnce <= n; i += kAtOnce) {
    int32_t any = 0;
    for (int64_t k = 0; k < kAtOnce; ++k) any |= found(x[i + k]) ? 1 : 0;
    if (any) break;
  }
  while (!found(x[i])) ++i;
  return static_cast<int32_t>(i);
}

// Computes argmax or argmin.
template <typename T>
struct Argument {
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request, bool greatest) {
    const int64_t axis = request.attr<int64_t>("axis");
    const int64_t n = request.inputs[0]->shape[axis];
    return make_along_axis(request, axis, axis, 1, 0, [greatest, n](const Line& line) {
      const T* x = line.at<T>(0);
      *line.at<int32_t>(1) = greatest ? first_of<true>(x, n) : first_of<false>(x, n);
    });
  }
};

// Computes all or any.
template <typename T>
struct Truth {
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request, bool all) {
    const auto axes = neighbouring_axes(request);
    if (!axes) return nullptr;
    const int64_t n = Lines(request.inputs[0]->shape, axes->first, axes->second).size;
    return make_along_axis(request, axes->first, axes->second, 1, 0, [all, n](const Line& line) {
      const T* x = line.at<T>(0);
      bool found = false;
      for (int64_t i = 0; i < n && !found; ++i) found = (x[i] != 0) != all;
      *line.at<uint8_t>(1) = found != all;
    });
  }
};

std::unique_ptr<BoundKernel> logsumexp_of_short_rows(const KernelRequest& request, int64_t n) {
  auto compute = [n](const KernelArgs& args, int64_t begin, int64_t end) {
    auto* held = reinterpret_cast<float*>(args.scratch);
    for_blocks_of_rows(begin, end, [&](int64_t first, int64_t count) {
      const float* x = input_of<float>(args, 0) + first * n;
      const columns::Block block{n, kRowsAtOnce, rows_to_columns(x, n, count, n, held)};
      float shifts[kRowsAtOnce], totals[kRowsAtOnce];
      columns::find_tops(block, held, shifts);
      for (float& shift : shifts) shift = std::isinf(shift) ? 0.0f : shift;
      columns::sum_of_powers(block, held, shifts, totals);
      float* y = buffer_of<float>(args, 1) + first;
      for (int64_t row = 0; row < count; ++row) y[row] = std::log(totals[row]) + shifts[row];
    });
  };
  return make_rows_kernel(request, request.outputs[0].elements(), n * 4, compute, nullptr,
                          n * kRowsAtOnce * 4);
}

std::unique_ptr<BoundKernel> bind_logsumexp(const KernelRequest& request) {
  const auto axes = neighbouring_axes(request);
  if (!axes || request.inputs[0]->dtype != DType::kF32) return nullptr;
  const Lines lines(request.inputs[0]->shape, axes->first, axes->second);
  const int64_t n = lines.size;
  if (lines.inner == 1 && n > 0 && n <= kShortRow) return logsumexp_of_short_rows(request, n);
  return make_along_axis(request, axes->first, axes->second, 4, 0, [n](const Line& line) {
    const float* x = line.at<float>(0);
    const float top = lanes::max(x, n), shift = std::isinf(top) ? 0.0f : top;
    const float total = lanes::sum(n, [x, shift](int64_t i) { return vec::exp(x[i] - shift); });
    *line.at<float>(1) = std::log(total) + shift;
  });
}

}  // namespace

std::unique_ptr<BoundKernel> bind_integer_reduction(const KernelRequest& request, char how) {
  const auto axes = neighbouring_axes(request);
  if (!axes || request.inputs[0]->dtype != DType::kI32) return nullptr;
  const int64_t n = Lines(request.inputs[0]->shape, axes->first, axes->second).size;
  return make_along_axis(request, axes->first, axes->second, 1, 0, [how, n](const Line& line) {
    const auto* x = line.at<int32_t>(0);
    int32_t value = x[0];
    for (int64_t i = 1; i < n; ++i) {
      const auto a = static_cast<uint32_t>(value), b = static_cast<uint32_t>(x[i]);
      value = how == '+'   ? static_cast<int32_t>(a + b)
              : how == '*' ? static_cast<int32_t>(a * b)
              : how == '>' ? std::max(value, x[i])
                           : std::min(value, x[i]);
    }
    *line.at<int32_t>(1) = value;
  });
}

void add_search_kernels(KernelTable& table) {
  table.add({.op = "argmax", .bind = bind_floats<by_type<Argument, true>>});
  table.add({.op = "argmin", .bind = bind_floats<by_type<Argument, false>>});
  table.add({.op = "any", .bind = bind_floats<by_type<Truth, false>>});
  table.add({.op = "all", .bind = bind_floats<by_type<Truth, true>>});
  table.add({.op = "logsumexp", .bind = bind_floats<bind_logsumexp>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
