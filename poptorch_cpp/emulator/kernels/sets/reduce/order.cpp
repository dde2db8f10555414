// Sorts and greatest elements along an axis. An element becomes a whole number in the order of the
// elements, joined with its position: comparisons then need no look-up, and no two are equal.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/reduce/search.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Returns a number with the order of x among its type's values. NaN counts as the greatest, as in
// torch; both zeros are equal.
template <typename T>
int32_t order_of(T x) {
  if constexpr (std::is_same_v<T, float>) {
    const float value = x == 0.0f ? 0.0f : x;
    const int32_t u = std::bit_cast<int32_t>(value);
    const int32_t order = u ^ static_cast<int32_t>(static_cast<uint32_t>(u >> 31) >> 1);
    return x != x ? std::numeric_limits<int32_t>::max() : order;
  } else {
    return static_cast<int32_t>(x);
  }
}

// Joins an order with a position: the smaller comes first, and of equal orders the smaller
// position.
int64_t place_of(int32_t order, int64_t i) {
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(order)) << 32 |
                              static_cast<uint64_t>(i));
}
int64_t position_of(int64_t place) { return place & 0xffffffff; }

// Writes the orders of n elements, reversed if the greatest comes first.
template <typename T, bool descending>
void write_orders(const T* x, int64_t n, int32_t* orders) {
  for (int64_t i = 0; i < n; ++i) orders[i] = descending ? ~order_of(x[i]) : order_of(x[i]);
}

constexpr int64_t kAtOnce = 32;

// Leaves the `kept` first places of n elements at the beginning of `places`, sorted; there is room
// for 2 kept + kAtOnce. Most elements of a long line are worse than the places that are kept.
void keep_first(const int32_t* orders, int64_t n, int64_t kept, int64_t* places) {
  int64_t count = 0;
  int32_t bound = std::numeric_limits<int32_t>::max();
  auto shrink = [&] {
    if (count <= kept) return;
    std::nth_element(places, places + kept - 1, places + count);
    count = kept;
    bound = static_cast<int32_t>(places[kept - 1] >> 32);
  };
  for (int64_t i = 0; i < n; i += kAtOnce) {
    const int64_t end = std::min(i + kAtOnce, n);
    int32_t any = 0;
    for (int64_t k = i; k < end; ++k) any |= orders[k] <= bound ? 1 : 0;
    if (any == 0) continue;
    for (int64_t k = i; k < end; ++k) {
      places[count] = place_of(orders[k], k);
      count += orders[k] <= bound ? 1 : 0;
    }
    if (count >= 2 * kept) shrink();
  }
  shrink();
  std::sort(places, places + count);
}

// Computes topk or sort.
template <typename T>
struct Order {
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request, bool top) {
    return request.attr<bool>(top ? "largest" : "descending") ? ordered<true>(request)
                                                              : ordered<false>(request);
  }
  template <bool descending>
  static std::unique_ptr<BoundKernel> ordered(const KernelRequest& request) {
    const int64_t axis = request.attr<int64_t>("axis");
    const int64_t n = request.inputs[0]->shape[axis];
    const int64_t kept = request.outputs[0].shape[axis];
    const int64_t ns = 2 + static_cast<int64_t>(std::log2(kept + 1)) * 2;
    const int64_t room = std::max(n, 2 * kept + kAtOnce);
    auto line = [n, kept, room](const Line& line) {
      const T* x = line.at<T>(0);
      auto* places = reinterpret_cast<int64_t*>(line.scratch);
      auto* orders = reinterpret_cast<int32_t*>(places + room);
      write_orders<T, descending>(x, n, orders);
      if (kept == 0) return;
      if (kept < n) {
        keep_first(orders, n, kept, places);
      } else {
        for (int64_t i = 0; i < n; ++i) places[i] = place_of(orders[i], i);
        std::sort(places, places + n);
      }
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t from = position_of(places[i]);
        if (line.buffers[1]) line.at<T>(1)[i] = x[from];
        if (line.buffers[2]) line.at<int32_t>(2)[i] = static_cast<int32_t>(from);
      }
    };
    return make_along_axis(request, axis, axis, ns, 8 * room + 4 * n, line);
  }
};

}  // namespace

void add_order_kernels(KernelTable& table) {
  table.add({.op = "sort", .bind = bind_floats<by_type<Order, false>>});
  table.add({.op = "topk", .bind = bind_floats<by_type<Order, true>>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
