// Forms of registers: micro-ops on elements as memory holds them give the bits of those on words.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"

namespace poptorch::emulator {
namespace {

// Elements of a register: 61 words, and the same as memory holds them.
struct HeldElements {
  Held form;
  std::vector<uint8_t> words, stored;
};

HeldElements held_elements(const Conversions& convert, Held form, uint32_t seed) {
  constexpr int64_t kCount = 61;
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

// Runs a row on words and as `forms` say, and returns both results as the last of them.
std::pair<std::vector<uint8_t>, std::vector<uint8_t>> both_ways(const KernelSet& set,
                                                                const MicroRow& row,
                                                                const HeldAs& forms) {
  constexpr int64_t kCount = 61;
  std::vector<HeldElements> operands;
  for (uint32_t k = 0; k < 3; ++k) {
    operands.push_back(held_elements(set.conversions, forms.sources[k], k + 1));
  }
  const double immediates[8] = {-0.5, 0.5, 1.0, 1.0};
  const HeldAs words;
  MicroArgs args;
  args.immediates = immediates;
  args.held = &words;
  std::vector<uint8_t> expected(4 * kCount), stored(4 * kCount), made(4 * kCount);
  for (int k = 0; k < 3; ++k) args.src[k] = operands[k].words.data();
  args.dst[0] = expected.data();
  row.fn(args, kCount);
  const auto bytes = static_cast<size_t>(bytes_of(forms.result) * kCount);
  args.src[0] = expected.data(), args.dst[0] = stored.data();
  const ir::DType dtypes[] = {row.result == RegisterClass::kF32 ? ir::DType::kF32 : ir::DType::kI32,
                              ir::DType::kF16, ir::DType::kBF16, ir::DType::kBool};
  set.conversions.store(dtypes[static_cast<size_t>(forms.result)])(args, kCount);
  for (int k = 0; k < 3; ++k) args.src[k] = operands[k].stored.data();
  args.dst[0] = made.data();
  args.held = &forms;
  row.held_fn(args, kCount);
  stored.resize(bytes), made.resize(bytes);
  if (row.result == RegisterClass::kF32) {
    for (auto* values : {&stored, &made}) make_equal_nans(forms.result, *values);
  }
  return {stored, made};
}

TEST(HeldForms, GiveTheBitsOfWords) {
  using enum Held;
  int compared = 0;
  for (const KernelSet* set : host_kernel_sets()) {
    std::vector<MicroRow> rows;
    set->add_micro_rows(rows);
    for (const MicroRow& row : rows) {
      if (!row.held_fn) continue;
      const bool floats = row.source == RegisterClass::kF32;
      const bool select = std::string_view(row.op) == "select";
      for (Held form : {kHalf, kBfloat, kBool}) {
        if ((form == kBool) == floats) continue;
        for (Held other : {form, kWord, kOne}) {
          if (!floats && other == kOne) continue;
          for (Held result : {kWord, row.result == RegisterClass::kF32 ? form : kBool}) {
            HeldAs forms{.sources = {form, other, other}, .result = result};
            if (select) forms.sources[0] = kBool, forms.sources[1] = form;
            const auto [expected, made] = both_ways(*set, row, forms);
            EXPECT_EQ(expected, made) << set->name << " " << row.op;
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace poptorch::emulator
