// Forms of registers: micro-ops on elements as memory holds them give the bits of those on words.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "reference/rounding_bits.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kCount = 301;

// Elements of a register as words, and the same as memory holds them.
struct HeldElements {
  Held form;
  std::vector<uint8_t> words, stored;
};

HeldElements held_elements(const Conversions& convert, Held form, uint32_t seed) {
  const ir::DType dtype = form == Held::kHalf ? ir::DType::kF16 : ir::DType::kBF16;
  HeldElements made{form, std::vector<uint8_t>(4 * kCount), {}};
  Floats x = random_floats(kCount, seed);
  // Values near the range's ends, and where sums and products of bfloat16 are ties, among others.
  const float special[] = {INFINITY, -INFINITY, NAN, -0.0f, 3e38f, -3e38f, 1e-40f, 1.0f, 0x1p-8f};
  for (int64_t i = 0; i < 3 * 9; i += 3) x[(i + seed) % kCount] = special[(i / 3 + seed) % 9];
  if (form == Held::kOne) std::fill(x.begin(), x.end(), x[0]);
  if (form == Held::kBool) {
    made.stored.resize(kCount);
    std::vector<int32_t> truth(kCount);
    for (int64_t i = 0; i < kCount; ++i) made.stored[i] = truth[i] = x[i] > 0;
    std::memcpy(made.words.data(), truth.data(), made.words.size());
    return made;
  }
  std::memcpy(made.words.data(), x.data(), made.words.size());
  made.stored = made.words;
  if (form == Held::kWord || form == Held::kOne) return made;
  MicroArgs args;
  args.src[0] = made.words.data(), args.dst[0] = made.stored.data();
  convert.store(dtype)(args, kCount);
  args.src[0] = made.stored.data(), args.dst[0] = made.words.data();
  convert.load(dtype)(args, kCount);
  return made;
}

template <typename Word>
void set_nans(std::vector<uint8_t>& values, Word infinity) {
  for (size_t i = 0; i < values.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, &values[i], sizeof(Word));
    const auto magnitude = static_cast<Word>(word & (static_cast<Word>(~Word{0}) >> 1));
    if (magnitude > infinity) std::memset(&values[i], 0xff, sizeof(Word));
  }
}
// Removes the signs of NaN: they depend on the order in which a compiler takes operands.
void make_equal_nans(Held form, std::vector<uint8_t>& values) {
  if (form == Held::kWord) return set_nans<uint32_t>(values, 0x7f800000u);
  set_nans<uint16_t>(values, form == Held::kHalf ? 0x7c00 : 0x7f80);
}

constexpr double kImmediates[8] = {-0.5, 0.5, 1.0, 1.0};

// The three operands of a row, and what it makes of them as words.
struct RowOnWords {
  std::vector<HeldElements> operands;
  std::vector<uint8_t> made;

  RowOnWords(const KernelSet& set, const MicroRow& row, const HeldAs& forms) : made(4 * kCount) {
    for (uint32_t k = 0; k < 3; ++k) {
      operands.push_back(held_elements(set.conversions, forms.sources[k], k + 1));
    }
    const HeldAs words;
    MicroArgs args;
    args.immediates = kImmediates, args.held = &words, args.dst[0] = made.data();
    for (int k = 0; k < 3; ++k) args.src[k] = operands[k].words.data();
    row.fn(args, kCount);
  }
  MicroArgs as_stored(const HeldAs& forms, std::vector<uint8_t>& to) const {
    MicroArgs args;
    args.immediates = kImmediates, args.held = &forms, args.dst[0] = to.data();
    for (int k = 0; k < 3; ++k) args.src[k] = operands[k].stored.data();
    return args;
  }
};

// Runs a row on words and as `forms` say, and returns both results as the last of them.
std::pair<std::vector<uint8_t>, std::vector<uint8_t>> both_ways(const KernelSet& set,
                                                                const MicroRow& row,
                                                                const HeldAs& forms) {
  const RowOnWords run(set, row, forms);
  std::vector<uint8_t> stored(4 * kCount), made(4 * kCount);
  const auto bytes = static_cast<size_t>(bytes_of(forms.result) * kCount);
  MicroArgs args;
  args.src[0] = run.made.data(), args.dst[0] = stored.data();
  const ir::DType dtypes[] = {row.result == RegisterClass::kF32 ? ir::DType::kF32 : ir::DType::kI32,
                              ir::DType::kF16, ir::DType::kBF16, ir::DType::kBool};
  set.conversions.store(dtypes[static_cast<size_t>(forms.result)])(args, kCount);
  row.held_fn(run.as_stored(forms, made), kCount);
  stored.resize(bytes), made.resize(bytes);
  if (row.result == RegisterClass::kF32) {
    for (auto* values : {&stored, &made}) make_equal_nans(forms.result, *values);
  }
  return {stored, made};
}

// Expects a row to round at random what it makes as words, in one row or in rows of `elements`.
void expect_rounded_at_random(const KernelSet& set, const MicroRow& row, const HeldAs& forms,
                              uint32_t index, uint32_t step, uint32_t elements = 0) {
  constexpr uint32_t kKey[] = {123456789, 987654321};
  const RowOnWords run(set, row, forms);
  std::vector<uint8_t> made(2 * kCount);
  MicroArgs args = run.as_stored(forms, made);
  args.index = index, args.index_step = step, args.row = elements;
  std::copy_n(kKey, 2, args.key);
  row.random_fn(args, kCount);
  const bool half = forms.result == Held::kHalf;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t row_length = elements == 0 ? kCount : elements;
    const uint32_t number = index + i % row_length * step + i / row_length;
    float wide;
    uint16_t bits;
    std::memcpy(&wide, &run.made[4 * i], sizeof(wide));
    std::memcpy(&bits, &made[2 * i], sizeof(bits));
    const float got = half ? support::from_half(bits) : support::from_bfloat16(bits);
    const double expected = reference::rounded_at_random(
        wide, reference::rounding_bits(number, kKey[0], kKey[1]), half ? 11 : 8, half ? -14 : -126);
    if (std::isnan(wide) && std::isnan(got)) continue;
    const float limit = half ? 65536.0f : INFINITY;
    const double bounded = std::abs(expected) < limit ? expected : std::copysign(INFINITY, wide);
    ASSERT_EQ(got, static_cast<float>(bounded))
        << set.name << " " << row.op << " " << i << " of " << index << ": " << wide;
  }
}

// Calls f(set, row) for the rows of all sets that the host has, and for joined pairs.
template <typename F>
void for_each_row(F f) {
  for (const KernelSet* set : host_kernel_sets()) {
    std::vector<MicroRow> rows;
    set->add_micro_rows(rows);
    for (const JoinedPair& pair : set->pairs) {
      rows.push_back({.op = pair.first.data(),
                      .source = RegisterClass::kF32,
                      .result = RegisterClass::kF32,
                      .fn = pair.fn,
                      .held_fn = pair.held_fn,
                      .random_fn = pair.random_fn});
    }
    for (const MicroRow& row : rows) f(*set, row);
  }
}

TEST(HeldForms, GiveTheBitsOfWords) {
  using enum Held;
  int compared = 0;
  for_each_row([&](const KernelSet& set, const MicroRow& row) {
    if (!row.held_fn) return;
    const bool floats = row.source == RegisterClass::kF32;
    const bool select = std::string_view(row.op) == "select";
    for (Held form : {kHalf, kBfloat, kBool}) {
      if ((form == kBool) == floats) continue;
      for (Held other : {form, kWord, kOne}) {
        if (!floats && other == kOne) continue;
        for (Held result : {kWord, row.result == RegisterClass::kF32 ? form : kBool}) {
          HeldAs forms{.sources = {form, other, other}, .result = result};
          if (select) forms.sources[0] = kBool, forms.sources[1] = form;
          const auto [expected, made] = both_ways(set, row, forms);
          EXPECT_EQ(expected, made) << set.name << " " << row.op;
          ++compared;
        }
      }
    }
  });
  EXPECT_GT(compared, 500);
}

TEST(HeldForms, RoundAtRandomWhatWordsAre) {
  using enum Held;
  int compared = 0;
  for_each_row([&](const KernelSet& set, const MicroRow& row) {
    if (!row.random_fn) return;
    for (Held form : {kHalf, kBfloat}) {
      for (Held other : {form, kWord, kOne}) {
        const HeldAs forms{.sources = {form, other, other}, .result = form};
        for (uint32_t index : {0u, 4096u, 4099u}) {
          expect_rounded_at_random(set, row, forms, index, 1);
        }
        expect_rounded_at_random(set, row, forms, 77, 49);
        expect_rounded_at_random(set, row, forms, 77, 49, 43);
        expect_rounded_at_random(set, row, forms, 64, 16, 7);
        ++compared;
      }
    }
  });
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace poptorch::emulator
