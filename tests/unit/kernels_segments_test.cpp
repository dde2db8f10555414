// Tile programs over spaces whose innermost dimension is short, where tiles are gathered from many
// rows: operands that repeat in any dimensions, blocks that begin and end within rows, and runs of
// rows that are apart.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "emulator/kernels/base/tile_program.hpp"
#include "support/half.hpp"
#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;

// A tensor of whole numbers that every type has, broadcast to a space.
struct Operand {
  Operand(DType dtype, Shape own, const Shape& space, int seed)
      : shape(std::move(own)), strides(broadcast_strides(shape, space)) {
    for (int64_t i = 0; i < ir::element_count(shape); ++i) {
      const auto value = static_cast<float>((i * 7 + seed * 3) % 23 - 11);
      const uint32_t bits =
          dtype == DType::kF16 ? ir::to_half_bits(value) : std::bit_cast<uint32_t>(value);
      const auto* from = reinterpret_cast<const std::byte*>(&bits);
      values.push_back(value);
      memory.insert(memory.end(), from, from + ir::size_of(dtype));
    }
  }
  // Returns the element at a place of the space, counted in row-major order.
  float at(int64_t place, const Shape& space) const {
    int64_t offset = 0;
    for (size_t d = space.size(); d-- > 0; place /= space[d])
      offset += place % space[d] * strides[d];
    return values[offset];
  }

  Shape shape, strides;
  std::vector<float> values;
  std::vector<std::byte> memory;
};

Shape repeated(Shape space, std::mt19937& random) {
  for (int64_t& size : space) size = random() % 2 == 0 ? 1 : size;
  return space;
}

void expect_sums(DType dtype, const Shape& space, std::mt19937& random) {
  const Operand a(dtype, repeated(space, random), space, 1);
  const Operand b(dtype, repeated(space, random), space, 2);
  TileProgramBuilder builder(space);
  const int x = builder.input({dtype, a.shape}), z = builder.input({dtype, b.shape});
  builder.output(builder.op(op("add"), {}, {x, z}, {dtype})[0]);
  const auto program = builder.finish();
  const int64_t count = ir::element_count(space);
  std::vector<std::byte> made(count * ir::size_of(dtype), std::byte{0x55});
  const std::vector<std::byte> before = made;
  const int64_t cols = 1 + static_cast<int64_t>(random() % count);
  const int64_t first = static_cast<int64_t>(random() % (count - cols + 1));
  auto* left = const_cast<std::byte*>(a.memory.data());
  auto* right = const_cast<std::byte*>(b.memory.data());
  run(*program, {left, right, made.data()}, {.first = first, .cols = cols});
  for (int64_t i = 0; i < count; ++i) {
    const bool inside = i >= first && i < first + cols;
    const auto* got = made.data() + i * ir::size_of(dtype);
    if (!inside) {
      ASSERT_EQ(std::memcmp(got, before.data() + i * ir::size_of(dtype), ir::size_of(dtype)), 0);
      continue;
    }
    uint32_t bits = 0;
    std::memcpy(&bits, got, ir::size_of(dtype));
    const float value = dtype == DType::kF16 ? static_cast<float>(ir::from_half_bits(bits))
                                             : std::bit_cast<float>(bits);
    ASSERT_EQ(value, a.at(i, space) + b.at(i, space))
        << dtype << ir::shape_text(space) << " of " << ir::shape_text(a.shape) << " and "
        << ir::shape_text(b.shape) << ", element " << i << " of [" << first << ", +" << cols << ")";
  }
}

TEST(Segments, OfShortRowsHaveTheirElements) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    Shape space;
    for (size_t d = 0; d < 2 + random() % 3; ++d) space.push_back(1 + random() % 9);
    space.push_back(1 + random() % (round % 3 == 0 ? 150 : 40));
    expect_sums(round % 2 == 0 ? DType::kF32 : DType::kF16, space, random);
  }
}

TEST(Segments, OfRunsThatAreApartHaveTheirElements) {
  const Shape space = {6, 5, 24};
  const Operand a(DType::kF32, {6, 5, 1}, space, 1), b(DType::kF32, {6, 1, 24}, space, 2);
  TileProgramBuilder builder(space);
  const int x = builder.input({DType::kF32, a.shape}), z = builder.input({DType::kF32, b.shape});
  builder.output(builder.op(op("add"), {}, {x, z}, {DType::kF32})[0]);
  const auto program = builder.finish();
  std::vector<float> made(6 * 5 * 24, 99);
  auto* left = const_cast<std::byte*>(a.memory.data());
  auto* right = const_cast<std::byte*>(b.memory.data());
  for (int64_t begin : {0, 3}) {
    run(*program, {left, right, bytes(made)},
        {.first = begin, .rows = 15, .row_step = 48, .cols = 20});
    for (int64_t r = 0; r < 15; ++r) {
      for (int64_t i = begin + r * 48; i < begin + r * 48 + 20; ++i) {
        ASSERT_EQ(made[i], a.at(i, space) + b.at(i, space)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
