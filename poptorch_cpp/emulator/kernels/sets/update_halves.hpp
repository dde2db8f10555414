// Updates of tensors of halves: they are read and written as in memory, and rounded once, to the
// nearest or at random.
#pragma once

#include "emulator/kernels/sets/narrow_product.hpp"
#include "emulator/kernels/sets/round_numbered.hpp"
#include "emulator/kernels/sets/update_formulas.hpp"
#include "emulator/kernels/simd/flush_denormals.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Runs an update on a product in registers, rounded as `G` is stored.
template <typename Update, typename G>
void over_product(const MicroArgs& a, const NarrowProduct& product) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  for_each_vector(product, [&](auto g, int64_t i) __attribute__((always_inline)) {
    update_at(update, G::round(g), i);
  });
}

// The same for a product that is not rounded and a tensor that is rounded at random.
template <typename Update, typename To>
void over_product_at_random(const MicroArgs& a, const NarrowProduct& product) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  const uint32_t first = a.index, key[2] = {a.key[0], a.key[1]};
  for_each_tile(product, [&]<typename V, size_t count>(V(&sums)[count],
                                                       int64_t at) __attribute__((always_inline)) {
    constexpr int64_t kWidth = kLanesOf<V>;
    auto fresh = [&](size_t v) {
      return update.fresh(sums[v], at + static_cast<int64_t>(v) * kWidth);
    };
    if constexpr (count == 1) {
      store_at_random<To>(update.w_out + at, fresh(0), first + static_cast<uint32_t>(at), key);
    } else {
#pragma GCC unroll 8
      for (size_t v = 0; v < count; v += 2) {
        const int64_t i = at + static_cast<int64_t>(v) * kWidth;
        const V x = fresh(v), y = fresh(v + 1);
        store_at_random<To>(update.w_out + i, x, y, first + static_cast<uint32_t>(i), key);
      }
    }
  });
}

// Copies the rest of a tensor of at most kLanes elements, and zeros.
template <typename T>
struct Rest {
  T held[kLanes] = {};
  void read(const MicroArgs& a, int k, int64_t first, int64_t n, MicroArgs& rest) {
    std::memcpy(held, a.in<T>(k) + first, static_cast<size_t>(n - first) * sizeof(T));
    rest.src[k] = held;
  }
};

// Updates the elements [first, n), at most kLanes, by the instructions of a vector. `finish` makes
// halves of the vector of their new values.
template <typename Update, typename G, typename Finish>
void run_rest(const MicroArgs& a, int64_t first, int64_t n, const Finish& finish) {
  using Held = typename Update::Held;
  MicroArgs rest = a;
  Rest<Held> updated;
  Rest<typename G::Stored> gradient;
  Rest<float> moments[Update::kTensors];
  for (int k = 1; k < Update::kTensors; ++k) {
    if (k != Update::kGradient) moments[k].read(a, k, first, n, rest);
  }
  updated.read(a, 0, first, n, rest);
  gradient.read(a, Update::kGradient, first, n, rest);
  float moments_out[Update::kResults][kLanes];
  for (int k = 1; k < Update::kResults; ++k) rest.dst[k] = moments_out[k];
  const Widest fresh = Update{rest}.fresh(G::template load_all<Widest>(gradient.held), 0);
  Held result[kLanes] = {};
  finish(result, fresh);
  const auto count = static_cast<size_t>(n - first);
  std::memcpy(a.out<Held>() + first, result, count * sizeof(Held));
  for (int k = 1; k < Update::kResults; ++k) {
    std::memcpy(a.out<float>(k) + first, moments_out[k], count * sizeof(float));
  }
}

template <typename Update, typename G>
void over_halves(const MicroArgs& a, int64_t n) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  const auto* g = a.in<typename G::Stored>(Update::kGradient);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) update_at(update, G::template load_all<Widest>(g + i), i);
  if (i < n) {
    run_rest<Update, G>(a, i, n, [](auto* y, Widest x) { Update::Tensor::store_all(y, x); });
  }
}

// Runs an update whose elements are not numbered in order: it rounds them after all are computed.
template <typename Update, typename To>
void over_numbered(const MicroArgs& a, int64_t n) {
  alignas(64) float fresh[kMostInRows + kLanes];
  const int64_t block = a.row == 0 ? kMostInRows : kMostInRows / a.row * a.row;
  const float* g = a.in<float>(Update::kGradient);
  const Update update(a);
  for (int64_t first = 0; first < n; first += block) {
    const int64_t end = std::min(first + block, n);
    int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      store(fresh + i - first, update.fresh(load<Widest>(g + i), i));
    }
    if (i < end) {
      run_rest<Update, Elements<Element::kFloat>>(
          a, i, end, [&](uint16_t*, Widest x) { store(fresh + i - first, x); });
    }
    round_numbered<To>(a, fresh, update.w_out + first, first, end - first);
  }
}

// Runs an update by a gradient of floats.
template <typename Update, typename To>
void over_halves_at_random(const MicroArgs& a, int64_t n) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  const float* g = a.in<float>(Update::kGradient);
  if (a.index_step != 1) return over_numbered<Update, To>(a, n);
  auto index_of = [first = a.index](int64_t i) { return first + static_cast<uint32_t>(i); };
  auto fresh = [&](int64_t i) { return update.fresh(load<Widest>(g + i), i); };
  int64_t i = 0;
  for (; i + kRounded <= n; i += kRounded) {
    const Widest x = fresh(i), y = fresh(i + kLanes);
    store_at_random<To>(update.w_out + i, x, y, index_of(i), a.key);
  }
  for (; i < n; i += kLanes) {
    const int64_t end = std::min(i + kLanes, n);
    run_rest<Update, Elements<Element::kFloat>>(
        a, i, end, [&](uint16_t* y, Widest x) { store_at_random<To>(y, x, index_of(i), a.key); });
  }
}

template <template <typename> typename Update>
constexpr ProductForm product_form() {
  using Floats = Elements<Element::kFloat>;
  return {over_product<Update<Floats>, Floats>, Update<Floats>::kGradient};
}

template <template <typename> typename Update, Element element, Element gradient>
constexpr HalfForm half_form() {
  using W = Elements<element>;
  using G = Elements<gradient>;
  return {over_halves<Update<W>, G>, {over_product<Update<W>, G>, Update<W>::kGradient}};
}

template <template <typename> typename Update, Element element, typename To>
constexpr HalfForm random_form() {
  using Halves = Update<Elements<element>>;
  return {over_halves_at_random<Halves, To>,
          {over_product_at_random<Halves, To>, Halves::kGradient}};
}

template <template <typename> typename Update>
constexpr HalfForms kHalfForms = {{{half_form<Update, Element::kHalf, Element::kFloat>(),
                                    half_form<Update, Element::kHalf, Element::kHalf>()},
                                   {half_form<Update, Element::kBfloat, Element::kFloat>(),
                                    half_form<Update, Element::kBfloat, Element::kBfloat>()}},
                                  Update<Elements<Element::kHalf>>::kGradient,
                                  {random_form<Update, Element::kHalf, ToHalf>(),
                                   random_form<Update, Element::kBfloat, ToBfloat>()}};

}  // namespace poptorch::emulator::inline POPTORCH_SET
