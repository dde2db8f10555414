// Updates of tensors of halves: they are read and written as in memory, and rounded once.
#pragma once

#include "emulator/kernels/sets/narrow_product.hpp"
#include "emulator/kernels/sets/update_formulas.hpp"
#include "emulator/kernels/simd/flush_denormals.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Runs an update on a product in registers, rounded as `G` is stored.
template <typename Update, typename G>
void over_product(const MicroArgs& a, const NarrowProduct& product) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  for_each_vector(
      product, [&](auto g, int64_t i) __attribute__((always_inline)) { update(G::round(g), i); });
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

// Runs an update on the elements [first, n), fewer than kLanes, by the instructions of a vector.
template <typename Update, typename G>
void run_rest(const MicroArgs& a, int64_t first, int64_t n) {
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
  Held result[kLanes];
  float moments_out[Update::kResults][kLanes];
  rest.dst[0] = result;
  for (int k = 1; k < Update::kResults; ++k) rest.dst[k] = moments_out[k];
  Update{rest}(G::template load_all<Widest>(gradient.held), 0);
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
  for (; i + kLanes <= n; i += kLanes) update(G::template load_all<Widest>(g + i), i);
  if (i < n) run_rest<Update, G>(a, i, n);
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

template <template <typename> typename Update>
constexpr HalfForms kHalfForms = {{{half_form<Update, Element::kHalf, Element::kFloat>(),
                                    half_form<Update, Element::kHalf, Element::kHalf>()},
                                   {half_form<Update, Element::kBfloat, Element::kFloat>(),
                                    half_form<Update, Element::kBfloat, Element::kBfloat>()}},
                                  Update<Elements<Element::kHalf>>::kGradient};

}  // namespace poptorch::emulator::inline POPTORCH_SET
