// Compares steps that join two operations of arithmetic with the operations: every pair, with
// tensors and single elements in any place, and the cases that must not be joined.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

constexpr int64_t kCount = 523;  // whole vectors of every set, and a rest

using Operation = std::function<float(float, float)>;
const std::map<std::string, Operation> kOperations = {{"add", std::plus<float>()},
                                                      {"sub", std::minus<float>()},
                                                      {"mul", std::multiplies<float>()},
                                                      {"div", std::divides<float>()}};

std::vector<float> operand(bool one, uint32_t seed) {
  std::vector<float> x = numbers(one ? 1 : kCount, -3, 3, seed);
  if (!one) x[5] = INFINITY, x[6] = NAN, x[7] = -0.0f, x[8] = 1e-40f, x[9] = 3e38f;
  return x;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Computes second(first(x, y), z), or with `after` second(z, first(x, y)). `ones` has a bit for
// each operand that is a single element.
void expect_pair(const std::string& first, const std::string& second, bool after, int ones) {
  SCOPED_TRACE(first + " " + second + (after ? " after " : " ") + std::to_string(ones));
  TileProgramBuilder builder({kCount});
  std::vector<std::vector<float>> x;
  std::vector<int> registers;
  for (int k = 0; k < 3; ++k) {
    x.push_back(operand(ones >> k & 1, k + 1));
    registers.push_back(builder.input({DType::kF32, {static_cast<int64_t>(x[k].size())}}));
  }
  const int made =
      builder.op(op(first.c_str()), {}, {registers[0], registers[1]}, {DType::kF32})[0];
  const std::vector<int> sources =
      after ? std::vector{registers[2], made} : std::vector{made, registers[2]};
  builder.output(builder.op(op(second.c_str()), {}, sources, {DType::kF32})[0]);
  const auto program = builder.finish();
  const bool commutes = second == "add" || second == "mul";
  if (!after || second != "div") {
    EXPECT_NE(program->text().find(first + "_" + second), std::string::npos) << program->text();
  }
  std::vector<float> y(kCount);
  run(*program, {bytes(x[0]), bytes(x[1]), bytes(x[2]), bytes(y)});
  auto at = [&](int k, int64_t i) { return x[k][x[k].size() == 1 ? 0 : i]; };
  for (int64_t i = 0; i < kCount; ++i) {
    const float part = kOperations.at(first)(at(0, i), at(1, i));
    const float whole = after && !commutes ? kOperations.at(second)(at(2, i), part)
                                           : kOperations.at(second)(part, at(2, i));
    ASSERT_TRUE(same(y[i], whole)) << i << ": " << y[i] << " is not " << whole;
  }
}

TEST(Pairs, HaveTheBitsOfTheirOperations) {
  for (const auto& [first, unused] : kOperations) {
    for (const auto& [second, unused_too] : kOperations) {
      for (bool after : {false, true}) {
        for (int ones = 0; ones < 7; ++ones) expect_pair(first, second, after, ones);
      }
    }
  }
}

TEST(Pairs, KeepAnOperationThatIsReadAgain) {
  std::vector<float> x = numbers(kCount, -1, 1), sum(kCount), product(kCount);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF32, {kCount}}), one = builder.constant(DType::kF32, 1);
  const int added = builder.op(op("add"), {}, {r, one}, {DType::kF32})[0];
  builder.output(builder.op(op("mul"), {}, {added, r}, {DType::kF32})[0]);
  builder.output(added);
  run(*builder.finish(), {bytes(x), bytes(product), bytes(sum)});
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sum[i], x[i] + 1);
    ASSERT_EQ(product[i], (x[i] + 1) * x[i]);
  }
}

TEST(Pairs, MultiplyASquare) {
  std::vector<float> x = numbers(kCount, -1, 1), y(kCount);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF32, {kCount}});
  const int square = builder.op(op("square"), {}, {r}, {DType::kF32})[0];
  builder.output(builder.op(op("mul"), {}, {r, square}, {DType::kF32})[0]);
  const auto program = builder.finish();
  EXPECT_NE(program->text().find("mul_mul"), std::string::npos) << program->text();
  run(*program, {bytes(x), bytes(y)});
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], x[i] * x[i] * x[i]);
}

TEST(Pairs, SquareAnOperation) {
  std::vector<float> x = numbers(kCount, -1, 1), y(kCount);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF32, {kCount}}), one = builder.constant(DType::kF32, 1);
  const int added = builder.op(op("add"), {}, {r, one}, {DType::kF32})[0];
  builder.output(builder.op(op("mul"), {}, {added, added}, {DType::kF32})[0]);
  run(*builder.finish(), {bytes(x), bytes(y)});
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], (x[i] + 1) * (x[i] + 1));
}

// Each operation on halves rounds, so that the sum is not an operand of the product as it is.
TEST(Pairs, RoundBetweenOperationsOnHalves) {
  std::vector<uint16_t> x(kCount), y(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[i] = static_cast<uint16_t>(0x3c00 + i);
  TileProgramBuilder builder({kCount});
  const int r = builder.input({DType::kF16, {kCount}});
  const int added = builder.op(op("add"), {}, {r, r}, {DType::kF16})[0];
  builder.output(builder.op(op("mul"), {}, {added, r}, {DType::kF16})[0]);
  const auto program = builder.finish();
  EXPECT_EQ(program->text().find("add_mul"), std::string::npos) << program->text();
}

}  // namespace
}  // namespace poptorch::emulator
