// Scatters of elements that are combined along an axis, where indices and tensor have the same
// other dimensions. Elements of different columns never meet. A task takes as many columns at a
// time as stay in the cache with all of their places, which it holds together: halves as floats,
// rounded once.
#include <string>

#include "emulator/kernels/base/joins.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// The tensor is [outer, size, inner]; indices and source are [outer, count, inner].
struct Columns {
  int64_t outer = 1, size = 1, count = 1, inner = 1;
  int64_t width = 1;  // columns taken together

  int64_t groups() const { return divide_up(inner, width); }  // of an outer index
};

constexpr int64_t kHeldBytes = int64_t{1} << 19, kMostBytes = int64_t{1} << 22;
constexpr int64_t kLeastWidth = 16;  // elements that are read together

// Returns no columns where a column does not fit, or has so few indices that it is better not to
// move all of its elements. Halves are all moved anyway: elsewhere, they would all become floats.
std::optional<Columns> columns_of(const KernelRequest& request) {
  const ir::Shape &x = request.inputs[0]->shape, &indices = request.inputs[1]->shape;
  const auto axis = static_cast<size_t>(request.attr<int64_t>("axis"));
  if (x.empty() || x.size() != indices.size()) return std::nullopt;
  Columns c;
  for (size_t d = 0; d < x.size(); ++d) {
    if (d == axis) continue;
    if (x[d] != indices[d]) return std::nullopt;
    (d < axis ? c.outer : c.inner) *= x[d];
  }
  c.size = x[axis], c.count = indices[axis];
  constexpr int64_t kElement = sizeof(float), kLeastShare = 8;
  const int64_t most = kHeldBytes / kElement / c.size / kLeastWidth * kLeastWidth;
  c.width = std::min(c.inner, std::max(kLeastWidth, most));
  const bool few = c.count * kLeastShare < c.size && !ir::is_half(request.outputs[0].dtype);
  if (few || c.width * c.size * kElement > kMostBytes) {
    return std::nullopt;
  }
  return c;
}

// T is the type in memory, Sum that of the elements that are held.
template <typename T, typename Sum, typename Op>
class ScatterColumns final : public BoundKernel {
 public:
  explicit ScatterColumns(const Columns& columns)
      : c_(columns), parts_(parts_for(estimated_ns(), c_.outer * c_.groups())) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t scratch_bytes() const override {
    return round_up(c_.size * c_.width * static_cast<int64_t>(sizeof(Sum)), 64);
  }
  int64_t estimated_ns() const override {
    return 50 + c_.outer * c_.inner * (c_.count + c_.size / 4);
  }
  void run(const KernelArgs& args, int, int task) const override {
    const Range mine = part_of(c_.outer * c_.groups(), parts_, task);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const int64_t o = i / c_.groups(), first = i % c_.groups() * c_.width;
      const int64_t width = std::min(c_.width, c_.inner - first);
      const int64_t x = o * c_.size * c_.inner + first, k = o * c_.count * c_.inner + first;
      auto* held = reinterpret_cast<Sum*>(args.scratch);
      hold(input_of<T>(args, 0) + x, width, held);
      put(input_of<int32_t>(args, 1) + k, input_of<T>(args, 2) + k, width, held);
      release(held, width, buffer_of<T>(args, 3) + x);
    }
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<T, Sum>;
  // Integers are moved as the floats that have their bits.
  using Moved = std::conditional_t<kConverts, T, float>;

  // Calls f(first element in memory, first element held, elements) for runs of neighbours.
  template <typename F>
  void for_runs(int64_t width, const F& f) const {
    const bool whole = width == c_.inner;
    const int64_t rows = whole ? 1 : c_.size, length = whole ? c_.size * width : width;
    for (int64_t r = 0; r < rows; ++r) f(r * c_.inner, r * width, length);
  }
  [[gnu::flatten]] void hold(const T* x, int64_t width, Sum* held) const {
    const auto* from = reinterpret_cast<const Moved*>(x);
    for_runs(width, [&](int64_t in, int64_t at, int64_t n) __attribute__((always_inline)) {
      move(n, from + in, reinterpret_cast<float*>(held) + at);
    });
  }
  [[gnu::flatten]] void release(const Sum* held, int64_t width, T* y) const {
    auto* to = reinterpret_cast<Moved*>(y);
    for_runs(width, [&](int64_t out, int64_t at, int64_t n) __attribute__((always_inline)) {
      move(n, reinterpret_cast<const float*>(held) + at, to + out);
    });
  }
  template <typename From, typename To>
  static void move(int64_t n, const From* x, To* y) {
    int64_t i = 0;
#pragma GCC unroll 2
    for (; i + kLanes <= n; i += kLanes) store_lanes(y + i, load_lanes(x + i));
    if (i == n) return;
    To last[kLanes];
    store_lanes(last, load_lanes(x + i, n - i));
    std::memcpy(y + i, last, static_cast<size_t>(n - i) * sizeof(To));
  }

  void put(const int32_t* at, const T* src, int64_t width, Sum* held) const {
    if (c_.inner == 1) return put_run<false>(at, src, c_.count, held);
    for (int64_t j = 0; j < c_.count; ++j, at += c_.inner, src += c_.inner) {
      put_run<true>(at, src, width, held);
    }
  }
  // Joins n neighbours: one in each column of a group, or all in the same.
  template <bool by_column>
  void put_run(const int32_t* at, const T* src, int64_t n, Sum* held) const {
    constexpr int64_t kBlock = 256;
    Sum converted[kConverts ? kBlock : 1];
    const auto size = static_cast<uint32_t>(c_.size);
    for (int64_t b = 0; b < n; b += kBlock) {
      const int64_t count = std::min(kBlock, n - b);
      const Sum* values;
      if constexpr (kConverts) {
        values = floats_of(src + b, count, converted);
      } else {
        values = src + b;
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto place = static_cast<uint32_t>(at[b + i]);
        if (place >= size) continue;
        Sum& to = held[by_column ? place * n + b + i : place];
        to = Op::join(to, values[i]);
      }
    }
  }

  Columns c_;
  int64_t parts_;
};

template <typename Op>
std::unique_ptr<BoundKernel> bind_joining(const KernelRequest& request, const Columns& columns) {
  switch (request.outputs[0].dtype) {
    case ir::DType::kF32:
      return std::make_unique<ScatterColumns<float, float, Op>>(columns);
    case ir::DType::kI32:
      return std::make_unique<ScatterColumns<int32_t, int32_t, Op>>(columns);
    case ir::DType::kF16:
      return std::make_unique<ScatterColumns<Half, float, Op>>(columns);
    case ir::DType::kBF16:
      return std::make_unique<ScatterColumns<Bfloat, float, Op>>(columns);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<BoundKernel> bind_scatter_columns(const KernelRequest& request) {
  const std::optional<Columns> columns = columns_of(request);
  // One task would take everything.
  if (!columns || (request.threads > 1 && columns->outer * columns->groups() < request.threads)) {
    return nullptr;
  }
  const auto& how = request.attr<std::string>("reduction");
  const auto bind = how == "sum"    ? bind_joining<Add>
                    : how == "prod" ? bind_joining<Multiply>
                    : how == "max"  ? bind_joining<Most>
                                    : bind_joining<Least>;
  return bind(request, *columns);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
