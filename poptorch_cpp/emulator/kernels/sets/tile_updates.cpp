// Optimiser updates and other writes of state as micro-ops: one pass over every tensor, in the
// order of operations of torch's single-tensor optimisers. Results are the written operands.
#include <algorithm>
#include <cmath>

#include "emulator/kernels/base/tile_map.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/update_formulas.hpp"
#include "emulator/kernels/sets/update_halves.hpp"
#include "emulator/kernels/simd/flush_denormals.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using enum RegisterClass;

using Floats = Elements<Element::kFloat>;
template <typename W>
using DecoupledAdam = Adam<W, true>;
template <typename W>
using CoupledAdam = Adam<W, false>;

bool flag(const MicroQuery& q, const char* name) { return std::get<bool>(q.attr(name)); }

std::vector<double> maximize_and(const MicroQuery& q, std::initializer_list<const char*> names) {
  std::vector<double> numbers{flag(q, "maximize") ? 1.0 : 0.0};
  for (const char* name : names) numbers.push_back(flag(q, name) ? 1.0 : 0.0);
  return numbers;
}

template <typename Update>
void over_memory(const MicroArgs& a, int64_t n) {
  const Update update(a);
  const FlushDenormals flush(update.flushes_denormals());
  const float* g = a.in<float>(Update::kGradient);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) update_at(update, g[i], i);
}

void sgd_momentum(const MicroArgs& a, int64_t n) {
  const FlushDenormals flush(true);
  const float *w = a.in<float>(0), *b = a.in<float>(1), *g = a.in<float>(2);
  float *w_out = a.out<float>(0), *b_out = a.out<float>(1);
  const bool first = a.number(3) == 1.0;
  const float rate = static_cast<float>(-a.number(4)), decay = static_cast<float>(a.number(5));
  const float momentum = static_cast<float>(a.number(6));
  // The first step's buffer is the gradient itself.
  const float keep = first ? 0.0f : momentum;
  const float fresh = first ? 1.0f : static_cast<float>(1.0 - a.number(7));
  const float sign = sign_of(a);
  const bool nesterov = a.immediates[1] != 0;
  const float ahead = nesterov ? momentum : 1.0f, own = nesterov ? 1.0f : 0.0f;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float slope = sign * g[i] + decay * w[i];
    const float old = keep == 0.0f ? 0.0f : keep * b[i];
    const float buffer = old + fresh * slope;
    const float direction = nesterov ? own * slope + ahead * buffer : buffer;
    b_out[i] = buffer;
    w_out[i] = w[i] + rate * direction;
  }
}

void lamb_direction(const MicroArgs& a, int64_t n) {
  const float *m = a.in<float>(0), *v = a.in<float>(1), *w = a.in<float>(2), *g = a.in<float>(3);
  float *m_out = a.out<float>(0), *v_out = a.out<float>(1), *out = a.out<float>(2);
  const double beta1 = a.number(5), beta2 = a.number(6);
  const Corrections corrections(beta1, beta2, a.number(4), a.immediates[1] != 0);
  const float fresh1 = static_cast<float>(1 - beta1), keep2 = static_cast<float>(beta2);
  const float fresh2 = static_cast<float>(1 - beta2), eps = static_cast<float>(a.number(7));
  const float unroot = static_cast<float>(1 / std::sqrt(corrections.second));
  const float scale = static_cast<float>(1 / corrections.first);
  const float decay = static_cast<float>(a.number(8)), sign = sign_of(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float slope = sign * g[i], weight = w[i];
    const float first = lerp(m[i], slope, fresh1);
    const float second = v[i] * keep2 + fresh2 * slope * slope;
    m_out[i] = first;
    v_out[i] = second;
    out[i] = scale * first / (std::sqrt(second) * unroot + eps) + decay * weight;
  }
}

// Absent state (the momentum buffer or the mean of centered gradients) does not have a result.
template <bool buffered, bool centered, bool tf>
void rmsprop_as(const MicroArgs& a, int64_t n) {
  const float *w = a.in<float>(0), *s = a.in<float>(1), *g = a.in<float>(2);
  const float *buffer = a.in<float>(8), *mean = a.in<float>(9);
  float *w_out = a.out<float>(0), *s_out = a.out<float>(1);
  float* buffer_out = buffered ? a.out<float>(2) : nullptr;
  float* mean_out = centered ? a.out<float>(buffered ? 3 : 2) : nullptr;
  const double alpha = a.number(4);
  const float rate = static_cast<float>(a.number(3)), decay = static_cast<float>(a.number(6));
  const float keep = static_cast<float>(alpha), fresh = static_cast<float>(1 - alpha);
  const float eps = static_cast<float>(a.number(5)), momentum = static_cast<float>(a.number(7));
  const float sign = sign_of(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float slope = sign * g[i] + decay * w[i];
    const float square = keep * s[i] + fresh * slope * slope;
    float spread = square;
    if constexpr (centered) {
      const float average = lerp(mean[i], slope, fresh);
      spread = square - average * average;
      mean_out[i] = average;
    }
    const float root = tf ? std::sqrt(spread + eps) : std::sqrt(spread) + eps;
    float step = tf ? rate * slope / root : slope / root;
    if constexpr (buffered) buffer_out[i] = step = momentum * buffer[i] + step;
    s_out[i] = square;
    w_out[i] = tf ? w[i] - step : w[i] - rate * step;
  }
}

template <bool tf>
void rmsprop(const MicroArgs& a, int64_t n) {
  const bool buffered = a.src[8] != nullptr, centered = a.src[9] != nullptr;
  const MicroFn run = buffered ? centered ? rmsprop_as<true, true, tf> : rmsprop_as<true, false, tf>
                      : centered ? rmsprop_as<false, true, tf>
                                 : rmsprop_as<false, false, tf>;
  run(a, n);
}

template <typename T>
void assign(const MicroArgs& a, int64_t n) {
  const T* from = a.in<T>(1);
  T* out = a.out<T>();
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = from[i];
}

template <typename T>
void increment(const MicroArgs& a, int64_t n) {
  const T* x = a.in<T>(0);
  T* out = a.out<T>();
  const T by = static_cast<T>(a.immediates[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + by;
}

}  // namespace

void add_update_rows(std::vector<MicroRow>& rows) {
  rows.push_back({"sgd_update", kF32, kF32, over_memory<Sgd<Floats>>,
                  [](const MicroQuery& q) { return maximize_and(q, {}); }, nullptr,
                  product_form<Sgd>(), &kHalfForms<Sgd>});
  rows.push_back({"sgd_momentum_update", kF32, kF32, sgd_momentum,
                  [](const MicroQuery& q) { return maximize_and(q, {"nesterov"}); }});
  auto adam_numbers = [](const MicroQuery& q) { return maximize_and(q, {"bias_correction"}); };
  rows.push_back({"adam_update", kF32, kF32, over_memory<Adam<Floats, true>>, adam_numbers,
                  [](const MicroQuery& q) { return flag(q, "decoupled"); },
                  product_form<DecoupledAdam>(), &kHalfForms<DecoupledAdam>});
  rows.push_back({"adam_update", kF32, kF32, over_memory<Adam<Floats, false>>, adam_numbers,
                  [](const MicroQuery& q) { return !flag(q, "decoupled"); },
                  product_form<CoupledAdam>(), &kHalfForms<CoupledAdam>});
  rows.push_back({"lamb_direction", kF32, kF32, lamb_direction, adam_numbers});
  auto rmsprop_numbers = [](const MicroQuery& q) { return maximize_and(q, {}); };
  rows.push_back({"rmsprop_update", kF32, kF32, rmsprop<true>, rmsprop_numbers,
                  [](const MicroQuery& q) { return flag(q, "tf_variant"); }});
  rows.push_back({"rmsprop_update", kF32, kF32, rmsprop<false>, rmsprop_numbers,
                  [](const MicroQuery& q) { return !flag(q, "tf_variant"); }});
  rows.push_back(
      {"accumulate", kF32, kF32, over_memory<Accumulate<Floats>>,
       [](const MicroQuery& q) { return std::vector{std::get<double>(q.attr("scale"))}; }, nullptr,
       product_form<Accumulate>(), &kHalfForms<Accumulate>});
  rows.push_back({"assign", kF32, kF32, assign<float>});
  rows.push_back({"assign", kI32, kI32, assign<int32_t>});
  rows.push_back({"assign", kI64, kI64, assign<int64_t>});
  rows.push_back({"assign", kF64, kF64, assign<double>});
  auto by = [](const MicroQuery& q) { return std::vector{std::get<double>(q.attr("by"))}; };
  rows.push_back({"increment", kF32, kF32, increment<float>, by});
  rows.push_back({"increment", kI32, kI32, increment<int32_t>, by});
  rows.push_back({"increment", kI64, kI64, increment<int64_t>, by});
  rows.push_back({"increment", kF64, kF64, increment<double>, by});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
