// Steps that choose by a comparison, against the two ops that they replace: every comparison and
// type, with tensors and single elements in any place, and special values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "emulator/kernels/base/tile_program.hpp"
#include "support/half.hpp"
#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

constexpr int64_t kCount = 523;  // whole vectors of every set, and a rest

using Compare = std::function<bool(float, float)>;
const std::map<const char*, Compare> kComparisons = {
    {"lt", std::less<float>()},     {"le", std::less_equal<float>()},
    {"gt", std::greater<float>()},  {"ge", std::greater_equal<float>()},
    {"eq", std::equal_to<float>()}, {"ne", std::not_equal_to<float>()}};

uint32_t stored(DType dtype, float x) {
  if (dtype == DType::kF16) return ir::to_half_bits(x);
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return dtype == DType::kBF16 ? bits >> 16 : bits;
}

// Elements that the type has, as it stores them and as floats.
struct Elements {
  Elements(DType dtype, int64_t count, int seed) {
    const float few[] = {0.0f, -0.0f, 1.5f, -2.0f, INFINITY, -INFINITY, NAN, 0.25f};
    for (int64_t i = 0; i < count; ++i) {
      const float value = few[(i * 7 + seed * (i / 3 + 1)) % std::size(few)];
      values.push_back(value);
      const uint32_t bits = stored(dtype, value);
      const auto* from = reinterpret_cast<const std::byte*>(&bits);
      memory.insert(memory.end(), from, from + ir::size_of(dtype));
    }
  }
  float at(int64_t i) const { return values[values.size() == 1 ? 0 : i]; }

  std::vector<float> values;
  std::vector<std::byte> memory;
};

// `ones` has a bit for each operand that is a single element.
void expect_choices(const char* name, const Compare& compare, DType dtype, int ones) {
  TileProgramBuilder builder({kCount});
  std::vector<Elements> operands;
  std::vector<int> registers;
  for (int k = 0; k < 4; ++k) {
    const int64_t count = ones >> k & 1 ? 1 : kCount;
    operands.emplace_back(dtype, count, k + 1);
    registers.push_back(builder.input({dtype, {count}}));
  }
  const int less = builder.op(op(name), {}, {registers[0], registers[1]}, {DType::kBool})[0];
  builder.output(builder.op(op("select"), {}, {less, registers[2], registers[3]}, {dtype})[0]);
  const auto program = builder.finish();
  EXPECT_NE(program->text().find("choose"), std::string::npos) << program->text();
  std::vector<std::byte> made(kCount * ir::size_of(dtype));
  run(*program, {bytes(operands[0].memory), bytes(operands[1].memory), bytes(operands[2].memory),
                 bytes(operands[3].memory), made.data()});
  for (int64_t i = 0; i < kCount; ++i) {
    const bool first = compare(operands[0].at(i), operands[1].at(i));
    uint32_t got = 0;
    std::memcpy(&got, made.data() + i * ir::size_of(dtype), ir::size_of(dtype));
    ASSERT_EQ(got, stored(dtype, operands[first ? 2 : 3].at(i)))
        << name << " of " << dtype << ", single elements " << ones << ", element " << i;
  }
}

TEST(Choices, HaveTheBitsOfTheChosenOperand) {
  for (const auto& [name, compare] : kComparisons) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (int ones = 0; ones < 15; ++ones) expect_choices(name, compare, dtype, ones);
    }
  }
}

TEST(Choices, KeepAComparisonThatIsReadAgain) {
  std::vector<float> x = numbers(kCount, -1, 1), y(kCount);
  std::vector<uint8_t> below(kCount);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF32, {kCount}}), zero = builder.constant(DType::kF32, 0);
  const int less = builder.op(op("lt"), {}, {r, zero}, {DType::kBool})[0];
  builder.output(builder.op(op("select"), {}, {less, zero, r}, {DType::kF32})[0]);
  builder.output(less);
  run(*builder.finish(), {bytes(x), bytes(y), bytes(below)});
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(y[i], x[i] < 0 ? 0 : x[i]);
    ASSERT_EQ(below[i], x[i] < 0);
  }
}

// Halves that are cast to floats, and then used as floats, are converted once.
TEST(TileProgram, LoadsHalvesThatAllStepsUseAsFloatsAsFloats) {
  std::vector<uint16_t> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[i] = ir::to_half_bits(0.01 * i - 2);
  std::vector<float> cube(kCount);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF16, {kCount}});
  const int wide = builder.op(op("cast"), {{"dtype", DType::kF32}}, {r}, {DType::kF32})[0];
  const int square = builder.op(op("square"), {}, {wide}, {DType::kF32})[0];
  builder.output(builder.op(op("mul"), {}, {square, wide}, {DType::kF32})[0]);
  const auto program = builder.finish();
  EXPECT_EQ(program->text().find("as stored"), std::string::npos) << program->text();
  run(*program, {bytes(x), bytes(cube)});
  for (int64_t i = 0; i < kCount; ++i) {
    const auto value = static_cast<float>(ir::from_half_bits(x[i]));
    ASSERT_EQ(cube[i], value * value * value);
  }
}

}  // namespace
}  // namespace poptorch::emulator
