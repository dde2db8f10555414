// Stochastic rounding: the bits it draws, and the fast kernel against the reference.
#include <algorithm>

#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "kernel_harness.hpp"
#include "reference/rounding_bits.hpp"
#include "sample.hpp"
#include "support/half.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using reference::RoundingBits;

const ir::Attrs kCasts[] = {{{"dtype", DType::kF16}},
                            {{"dtype", DType::kBF16}},
                            {{"dtype", DType::kF16}, {"same_in_replicas", true}}};

void expect_the_bits_of_the_reference(TestTensor& x) {
  for (const ir::Attrs& attrs : kCasts) {
    KernelRun oracle("stochastic_cast", attrs, {&x}), run("stochastic_cast", attrs, {&x});
    run_reference(oracle, attrs, {5, 7, 2, 3, 4});
    ASSERT_TRUE(run.bind());
    for (int threads : {1, 4}) {
      run.run(threads, {5, 7, 2, 3, 4});
      for (int64_t i = 0; i < x.type.elements(); ++i) {
        const double got = run.outputs[0].at(i), expected = oracle.outputs[0].at(i);
        ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
            << "element " << i << ", " << x.at(i) << ": " << got << " instead of " << expected;
        ASSERT_EQ(std::signbit(got), std::signbit(expected)) << "element " << i;
      }
    }
  }
}

TEST(StochasticCast, HasTheBitsOfTheReference) {
  for (double scale : {1.0, 1e-39, 1e-6, 1e-3, 300.0, 7e4}) {
    TestTensor x(DType::kF32, {3001}, -scale, scale, 3);
    expect_the_bits_of_the_reference(x);
  }
}

TEST(StochasticCast, HasThemForNumbersOfAnyExponent) {
  TestTensor x(DType::kF32, {40000}, -1, 1, 3);
  std::mt19937 random(4);
  const float special[] = {0.0f,      -0.0f,      INFINITY,   -INFINITY,   65504.0f,
                           -65519.9f, 65536.0f,   0x1p-14f,   0x1p-24f,    0x1p-25f,
                           0x1p-41f,  -0x1p-149f, 3.4028e38f, 0x1.ffcp-15f};
  for (int64_t i = 0; i < 40000; ++i) {
    x.f32()[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(x.f32()[i])) x.f32()[i] = std::copysign(NAN, 1.0f);
  }
  for (int64_t i = 0; i < 4000; ++i) x.f32()[9 * i + 1] = special[i % std::size(special)];
  expect_the_bits_of_the_reference(x);
}

// Each of n numbers of a uniform distribution falls into a bin: chi-squared has a mean of bins - 1
// and a variance of twice that.
void expect_uniform(const std::vector<int64_t>& counts) {
  const double bins = static_cast<double>(counts.size());
  double all = 0, deviation = 0;
  for (int64_t count : counts) all += static_cast<double>(count);
  for (int64_t count : counts) {
    const double apart = static_cast<double>(count) - all / bins;
    deviation += apart * apart / (all / bins);
  }
  EXPECT_NEAR(deviation, bins - 1, 6 * std::sqrt(2 * (bins - 1)));
}

constexpr int64_t kDrawn = 1 << 20;

TEST(RoundingBits, AreUniform) {
  for (uint64_t seed : {0, 1, 42}) {
    const RoundingBits bits(reference::RandomKey{.seed = seed});
    std::vector<int64_t> high(256), low(256);
    for (int64_t i = 0; i < kDrawn; ++i) {
      ++high[bits.of(i) >> 8];
      ++low[bits.of(i) & 255];
    }
    expect_uniform(high);
    expect_uniform(low);
  }
}

// The leading four bits of two numbers fall into 256 bins.
template <typename Other>
void expect_independent(const RoundingBits& bits, Other other) {
  std::vector<int64_t> pairs(256);
  for (int64_t i = 0; i < kDrawn; ++i) ++pairs[(bits.of(i) >> 12) << 4 | other(i) >> 12];
  expect_uniform(pairs);
}

TEST(RoundingBits, OfNeighboursAreIndependent) {
  const RoundingBits bits(reference::RandomKey{.seed = 3});
  for (int64_t distance : {1, 2, 16, 17, 32, 64, 512, 4096}) {
    SCOPED_TRACE(distance);
    expect_independent(bits, [&](int64_t i) { return bits.of(i + distance); });
  }
}

// The words of a block are multiples of one number: four bits of two numbers fall into 256 bins.
TEST(RoundingBits, OfABlockAreIndependent) {
  constexpr int64_t kBlock = reference::kBlockElements;
  const RoundingBits bits(reference::RandomKey{.seed = 5});
  std::vector<std::array<uint32_t, kBlock>> drawn(1 << 16);
  for (size_t i = 0; i < drawn.size(); ++i) {
    for (int64_t e = 0; e < kBlock; ++e) drawn[i][e] = bits.of(i * kBlock + e);
  }
  for (int a = 0; a < kBlock; ++a) {
    for (int b = a + 1; b < kBlock; ++b) {
      for (int first_bit : {0, 3, 8, 12}) {
        SCOPED_TRACE(testing::Message() << a << ", " << b << ", bit " << first_bit);
        std::vector<int64_t> pairs(256);
        for (const auto& block : drawn) {
          ++pairs[(block[a] >> first_bit & 15) << 4 | (block[b] >> first_bit & 15)];
        }
        expect_uniform(pairs);
      }
    }
  }
}

TEST(RoundingBits, OfDifferentKeysAreIndependent) {
  const reference::RandomKey key{.seed = 3, .op_id = 7};
  const RoundingBits bits(key);
  std::vector<RoundingBits> others{RoundingBits(key, 1)};
  for (auto change :
       {+[](reference::RandomKey& k) { ++k.seed; }, +[](reference::RandomKey& k) { ++k.op_id; },
        +[](reference::RandomKey& k) { ++k.replica; },
        +[](reference::RandomKey& k) { ++k.micro_batch; },
        +[](reference::RandomKey& k) { ++k.round; }}) {
    reference::RandomKey other = key;
    change(other);
    others.emplace_back(other);
  }
  for (const RoundingBits& other : others) {
    expect_independent(bits, [&](int64_t i) { return other.of(i); });
  }
  expect_independent(bits, [&](int64_t i) { return bits.of(i + (int64_t{1} << 32)); });
}

TEST(StochasticCast, RoundsInProportion) {
  const double below = 1.0, unit = 0x1p-10, value = below + 0.25 * unit;
  const RoundingBits bits(reference::RandomKey{.seed = 1});
  int up = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const double rounded = reference::rounded_at_random(value, bits.of(i), 11, -14);
    ASSERT_TRUE(rounded == below || rounded == below + unit);
    up += rounded != below;
  }
  EXPECT_NEAR(up, 25000, 5 * 137);  // standard deviation sqrt(n p (1 - p))
}

// Runs a chain on short rows, whose first elements are at any index: it must draw what a single op
// draws. With `read`, a later step reads the rounded values: they are in a register of floats.
// The other operand is a row, or a column if `by_columns`.
void expect_draws_by_index(DType dtype, const ir::Shape& shape, bool by_columns, bool read) {
  const RandomKey key{5, 7, 2, 3, 4};
  const ir::Attrs cast{{"dtype", dtype}};
  const int64_t columns = shape.back();
  ir::Shape other{columns};
  if (by_columns) other = shape, other.back() = 1;
  const TestTensor x = random_f32(shape, 1), row = random_f32(other, 2);
  TestTensor sum(x.type);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    sum.f32()[i] = x.f32()[i] + row.f32()[by_columns ? i / columns : i % columns];
  }
  KernelRun oracle("stochastic_cast", cast, {&sum});
  run_reference(oracle, cast, key);
  TileProgramBuilder builder(shape);
  const int a = builder.input(x.type), b = builder.input(row.type);
  const int added = builder.op(ops::registry().get("add"), {}, {a, b}, {DType::kF32})[0];
  const int rounded =
      builder.op(ops::registry().get("stochastic_cast"), cast, {added}, {dtype}, key.op_id)[0];
  builder.output(rounded);
  if (read) builder.output(builder.op(ops::registry().get("neg"), {}, {rounded}, {dtype})[0]);
  const auto program = builder.finish();
  TestTensor y({dtype, shape}), negative({dtype, shape});
  std::vector<std::byte> scratch(program->scratch_bytes() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, space - 64, aligned, space);
  std::byte* buffers[] = {const_cast<std::byte*>(x.data.data()),
                          const_cast<std::byte*>(row.data.data()), y.data.data(),
                          negative.data.data()};
  for (int64_t first = 0; first < x.type.elements(); first += 101) {
    const int64_t cols = std::min<int64_t>(101, x.type.elements() - first);
    program->run(buffers, {.first = first, .cols = cols}, static_cast<std::byte*>(aligned),
                 {.seed = key.seed, .op_id = 99, .replica = 2, .micro_batch = 3, .round = 4});
  }
  EXPECT_TRUE(y == oracle.outputs[0]);
  for (int64_t i = 0; read && i < y.type.elements(); ++i) ASSERT_EQ(negative.at(i), -y.at(i));
}

TEST(StochasticCast, DrawsByTheIndexInTheSpaceOfItsChain) {
  for (const ir::Shape& shape : {ir::Shape{7, 45}, {3, 5, 130}, {2, 700}}) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      for (bool by_columns : {false, true}) {
        for (bool read : {false, true}) expect_draws_by_index(dtype, shape, by_columns, read);
      }
    }
  }
}

// A program in the memory order of a channels-last tensor draws what one in row-major order does.
TEST(StochasticCast, DrawsByTheRowMajorNumberInAnyMemoryOrder) {
  const RandomKey key{5, 7, 2, 3, 4};
  for (const ir::Shape& shape : {ir::Shape{2, 3, 5, 7}, {1, 40, 4, 4}, {3, 16, 1, 33}}) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      const ir::Attrs cast{{"dtype", dtype}};
      TestTensor plain = random_f32(shape, 1);
      KernelRun oracle("stochastic_cast", cast, {&plain});
      run_reference(oracle, cast, key);
      const auto last = Layout::Kind::kChannelsLast;
      const ir::Shape space = memory_shape(shape, last), numbers = numbers_in_order(shape, last);
      std::vector<int64_t> number(plain.type.elements());
      for (int64_t i = 0; i < plain.type.elements(); ++i) {
        for (int64_t rest = i, d = 3; d >= 0; rest /= space[d--]) {
          number[i] += rest % space[d] * numbers[d];
        }
      }
      TestTensor x({DType::kF32, space}), y({dtype, space});
      for (size_t i = 0; i < number.size(); ++i) x.f32()[i] = plain.f32()[number[i]];
      TileProgramBuilder builder(space, numbers);
      const int a = builder.input(x.type);
      builder.output(
          builder.op(ops::registry().get("stochastic_cast"), cast, {a}, {dtype}, key.op_id)[0]);
      const auto program = builder.finish();
      std::vector<std::byte> scratch(program->scratch_bytes() + 64);
      void* aligned = scratch.data();
      size_t left = scratch.size();
      std::align(64, left - 64, aligned, left);
      std::byte* buffers[] = {x.data.data(), y.data.data()};
      for (int64_t first = 0; first < x.type.elements(); first += 101) {
        const int64_t cols = std::min<int64_t>(101, x.type.elements() - first);
        program->run(buffers, {.first = first, .cols = cols}, static_cast<std::byte*>(aligned),
                     key);
      }
      for (size_t i = 0; i < number.size(); ++i) {
        ASSERT_EQ(y.at(i), oracle.outputs[0].at(number[i])) << "element " << number[i];
      }
    }
  }
}

// A block of sums with a random place and a random ending.
struct EndedBlock {
  DType dtype;
  int64_t image, all_rows, columns, row, column, rows, width;
  bool scales, adds, limits;

  explicit EndedBlock(std::mt19937& random) {
    auto up_to = [&](int64_t n) { return 1 + static_cast<int64_t>(random() % n); };
    constexpr int64_t kImages[] = {1, 1, 1, 5, 16, 36, 49};
    dtype = random() % 2 == 0 ? DType::kF16 : DType::kBF16;
    image = kImages[random() % std::size(kImages)];
    all_rows = image * up_to(3) + (image == 1 ? up_to(70) : 0),
    columns = up_to(random() % 2 == 0 ? 90 : 400);
    row = up_to(all_rows) - 1, rows = up_to(all_rows - row);
    if (random() % 2 == 0) rows = std::min(rows, up_to(5));
    column = up_to(columns) - 1, width = up_to(columns - column);
    const bool chains = random() % 3 != 0;
    scales = chains && random() % 2 == 0, adds = chains && random() % 2 == 0;
    limits = chains && random() % 2 == 0;
  }
  // Returns the number of an element of the whole tensor in row-major order.
  int64_t number(int64_t i, int64_t j) const {
    return (i / image * columns + j) * image + i % image;
  }
};

float rounded_like(DType dtype, float x, uint32_t random) {
  const bool half = dtype == DType::kF16;
  return static_cast<float>(
      reference::rounded_at_random(x, random, half ? 11 : 8, half ? -14 : -126));
}

void expect_the_ending_of_the_reference(const EndedBlock& b, uint32_t seed) {
  TestTensor sums(DType::kF32, {b.rows, b.width}, -4, 4, seed);
  TestTensor scale(DType::kF32, {b.columns}, -2, 2, seed + 1);
  TestTensor shift(DType::kF32, {b.columns}, -2, 2, seed + 2);
  TestTensor added(b.dtype, {b.all_rows, b.columns}, -3, 3, seed + 3);
  TestTensor ended({b.dtype, {b.all_rows, b.columns}});
  for (int64_t j = 0; j < b.columns; ++j) {  // products are exact
    scale.f32()[j] = std::copysign(std::exp2(std::round(scale.f32()[j])), scale.f32()[j]);
  }
  RoundingBits bits[3];
  HalfEnding ending;
  ending.rounding.at_random = true, ending.rounding.image = b.image;
  for (int part = 0; part < 3; ++part) {
    bits[part] = RoundingBits({5, 7, 2, 3, 4}, part);
    ending.rounding.keys[part][0] = bits[part].first(0);
    ending.rounding.keys[part][1] = bits[part].second();
  }
  if (b.scales) ending.scale = scale.f32(), ending.shift = shift.f32();
  if (b.adds) ending.added = reinterpret_cast<const uint16_t*>(added.data.data());
  if (b.limits) ending.low = -0.5f, ending.high = 2;
  ending.to = reinterpret_cast<uint16_t*>(ended.data.data());
  ending.row_step = b.columns, ending.element = element_of(b.dtype);
  kernel_set().half_blocks.end(ending.from(b.row, b.column), sums.f32(), b.width, b.rows, b.width);
  for (int64_t i = 0; i < b.all_rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) {
      const int64_t at = i * b.columns + j, row = i - b.row, column = j - b.column;
      if (row < 0 || row >= b.rows || column < 0 || column >= b.width) {
        ASSERT_EQ(ended.at(at), 0) << "an element beyond the block";
        continue;
      }
      float x = sums.f32()[row * b.width + column];
      auto round = [&](int part) {
        x = rounded_like(b.dtype, x, bits[part].of(static_cast<uint64_t>(b.number(i, j))));
      };
      round(EndingRounding::kSum);
      if (b.scales) x = x * scale.f32()[j] + shift.f32()[j], round(EndingRounding::kScaled);
      if (b.adds) x += static_cast<float>(added.at(at)), round(EndingRounding::kAdded);
      if (b.limits) x = std::clamp(x, -0.5f, 2.0f);
      ASSERT_EQ(ended.at(at), x) << "row " << i << ", column " << j;
    }
  }
}

// Some of so many random words are zero.
TEST(StochasticCast, KeepsInfinities) {
  constexpr int64_t kRows = 8192, kColumns = 64;
  std::vector<float> sums(kRows * kColumns, INFINITY);
  for (size_t i = 0; i < sums.size(); i += 3) sums[i] = -INFINITY;
  for (const KernelSet* set : host_kernel_sets()) {
    for (Element element : {Element::kHalf, Element::kBfloat}) {
      std::vector<uint16_t> to(sums.size());
      HalfEnding ending;
      ending.to = to.data();
      ending.row_step = kColumns;
      ending.element = element;
      ending.rounding = {.at_random = true, .keys = {{1, 2}, {3, 4}, {5, 6}}};
      set->half_blocks.end(ending, sums.data(), kColumns, kRows, kColumns);
      int64_t wrong = 0;
      for (size_t i = 0; i < to.size(); ++i) {
        const float x =
            element == Element::kHalf ? support::from_half(to[i]) : support::from_bfloat16(to[i]);
        wrong += x != sums[i];
      }
      EXPECT_EQ(wrong, 0) << set->name;
    }
  }
}

TEST(StochasticCast, EndsBlocksOfSumsByTheNumbersOfTheirElements) {
  Sample sample(4);
  std::mt19937 random(11);
  for (uint32_t trial = 0; trial < 400; ++trial) {
    if (!sample.takes()) continue;
    const EndedBlock block(random);
    SCOPED_TRACE(trial);
    expect_the_ending_of_the_reference(block, trial);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace poptorch::emulator
