// Maps whose results are rounded at random to halves in memory: MicroRow::random_fn. The type of
// the halves is MicroArgs::held's.
#pragma once

#include "emulator/kernels/sets/held_map.hpp"
#include "emulator/kernels/sets/round_numbered.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Runs a step that makes words, and rounds them block by block.
template <int operands, MicroFn make_words>
void round_blocks(const MicroArgs& a, int64_t n) {
  alignas(64) float made[kMostInRows];
  const int64_t block = a.row == 0 ? 256 : kMostInRows / a.row * a.row;
  HeldAs held = *a.held;
  held.result = Held::kWord;
  MicroArgs part = a;
  part.held = &held, part.dst[0] = made;
  for (int64_t i = 0; i < n; i += block) {
    const int64_t count = std::min(n - i, block);
    make_words(part, count);
    if (a.held->result == Held::kHalf) {
      round_numbered<ToHalf>(a, made, a.out<uint16_t>() + i, i, count);
    } else {
      round_numbered<ToBfloat>(a, made, a.out<uint16_t>() + i, i, count);
    }
    for (int k = 0; k < operands; ++k) {
      part.src[k] = part.in<std::byte>(k) + count * bytes_of(held.sources[k]);
    }
  }
}

// The form of a loop that makes halves from words, apart from the sources `ones`.
template <Held made, int ones>
struct FromWords {
  static constexpr int kVectors = 1;
  static constexpr Held source(int k) { return ones >> k & 1 ? Held::kOne : Held::kWord; }
  static constexpr Held result() { return made; }
};

// Rounds kRounded elements in the order in which load_vectors() loads them.
template <typename Form, typename V>
void put_two(uint16_t* y, V a, V b, WidestWords words) {
  if constexpr (Form::result() == Held::kHalf) {
    ToHalf::put(y, a, b, words);
  } else if constexpr (Form::kVectors == 1) {
    ToBfloat::put(y, a, b, words);
  } else {
    put_bfloats_in_turn(y, a, b, words);
  }
}

// Maps kRounded elements at a time.
template <typename Form, typename F, int... k>
[[gnu::noinline, gnu::flatten]] void round_vectors(const F& f, const void* const* src, void* dst,
                                                   int64_t n, uint32_t index, const uint32_t* key) {
  auto* y = static_cast<uint16_t*>(dst);
  const Sources<Form, k...> sources(src);
  // In a function for with_words(), the compiler left loops over lanes scalar.
  for (int64_t begin = 0; begin < n; begin += BlockWords::kElements) {
    BlockWords words(index + static_cast<uint32_t>(begin), key);
    const int64_t end = std::min(n, begin + BlockWords::kElements);
    for (int64_t i = begin; i < end; i += kRounded) {
      Widest v[sizeof...(k)][2], made[2];
      sources.load_at(i, v);
      apply<float, float, 2>(f, v, made, std::integer_sequence<int, k...>());
      put_two<Form>(y + i, made[0], made[1], words.next());
    }
  }
}

template <typename Form, typename F, int... k>
void round_all(const F& f, const MicroArgs& a, int64_t n, std::integer_sequence<int, k...>) {
  const int64_t whole = n / kRounded * kRounded;
  round_vectors<Form, F, k...>(f, a.src, a.dst[0], whole, a.index, a.key);
  if (whole == n) return;
  // The rest runs the same instructions.
  float operands[sizeof...(k)][kRounded] = {};
  uint16_t made[kRounded];
  const auto rest = static_cast<size_t>(n - whole);
  auto rest_of = [&](int operand) -> const void* {
    const auto bytes = static_cast<size_t>(bytes_of(Form::source(operand)));
    if (bytes == 0) return a.src[operand];
    std::memcpy(operands[operand], a.in<std::byte>(operand) + whole * bytes, rest * bytes);
    return operands[operand];
  };
  const void* src[] = {rest_of(k)...};
  const uint32_t index = a.index + static_cast<uint32_t>(whole);
  round_vectors<Form, F, k...>(f, src, made, kRounded, index, a.key);
  std::copy_n(made, rest, a.out<uint16_t>() + whole);
}

// Maps sources in one form, apart from the last ones or the first, to `made`. Returns whether they
// are in one: in that of the result, or words.
template <Held made, int operands, typename F>
bool round_same(const F& f, const MicroArgs& a, int64_t n) {
  constexpr auto kOperands = std::make_integer_sequence<int, operands>();
  constexpr int kLast = (1 << operands) - 2;
  constexpr int kFirst = operands == 2;
  int ones = 0, words = 0, same = 0;
  for (int k = 0; k < operands; ++k) {
    const Held source = a.held->sources[k];
    ones |= (source == Held::kOne) << k;
    words += source == Held::kWord;
    same += source == made;
  }
  const bool from_words = same == 0 && words > 0;
  if (!from_words && words > 0) return false;
  auto run = [&]<int all>(std::integral_constant<int, all>) {
    if (ones != all) return false;
    if (from_words) {
      round_all<FromWords<made, all>>(f, a, n, kOperands);
    } else {
      round_all<AllHeld<made, all>>(f, a, n, kOperands);
    }
    return true;
  };
  return run(std::integral_constant<int, 0>()) ||
         (operands > 1 && run(std::integral_constant<int, kLast>())) ||
         (operands == 2 && run(std::integral_constant<int, kFirst>()));
}

// `make_words` maps by the same functor.
template <int operands, MicroFn make_words, typename F>
void map_random(const MicroArgs& a, int64_t n, const F& f) {
  if constexpr (kRoundsPairs) {
    if (a.index_step == 1 && a.index % kAligned == 0) {
      const bool half = a.held->result == Held::kHalf;
      const bool done = half ? round_same<Held::kHalf, operands>(f, a, n)
                             : round_same<Held::kBfloat, operands>(f, a, n);
      if (done) return;
    }
  }
  round_blocks<operands, make_words>(a, n);
}

template <int operands, typename F>
void map_random_of(const MicroArgs& a, int64_t n) {
  map_random<operands, map_held_of<operands, float, float, F>>(a, n, F());
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
