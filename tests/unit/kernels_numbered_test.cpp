// Tile programs that round at random in the memory order of channels-last tensors: their bits are
// those of the same program in row-major order.
#include <algorithm>
#include <functional>
#include <random>

#include "emulator/kernels/base/layouts.hpp"
#include "kernel_harness.hpp"
#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using Kind = Layout::Kind;

const reference::RandomKey kKey{5, 7, 2, 3, 4};

struct NumberedOperand {
  DType dtype;
  ir::Shape shape;
};

// A program, and the types of its operands; the first `written` of them are updated in place.
struct NumberedCase {
  std::vector<NumberedOperand> operands;
  DType half;
  int written = 0;
  std::function<std::vector<int>(TileProgramBuilder&, const std::vector<int>&)> build;
};

NumberedCase rounded_sum(const ir::Shape& shape, DType half) {
  const ir::Attrs cast{{"dtype", half}};
  return {{{half, shape}, {DType::kF32, {1, shape[1], 1, 1}}},
          half,
          0,
          [=](TileProgramBuilder& b, const std::vector<int>& in) {
            const int wide = b.op(op("cast"), {{"dtype", DType::kF32}}, {in[0]}, {DType::kF32})[0];
            const int sum = b.op(op("add"), {}, {wide, in[1]}, {DType::kF32})[0];
            const int y = b.op(op("stochastic_cast"), cast, {sum}, {half}, kKey.op_id)[0];
            return std::vector{y, b.op(op("relu"), {}, {y}, {half})[0]};
          }};
}

NumberedCase rounded_alone(const ir::Shape& shape, DType half) {
  return {{{DType::kF32, shape}}, half, 0, [=](TileProgramBuilder& b, const std::vector<int>& in) {
            return b.op(op("stochastic_cast"), {{"dtype", half}}, {in[0]}, {half}, kKey.op_id);
          }};
}

// An update of one tensor of halves with `moments` of floats, or of halves as well.
NumberedCase updated(const char* name, int moments, int numbers, DType moment,
                     const ir::Shape& shape, DType half) {
  std::vector<NumberedOperand> operands{{half, shape}};
  std::vector<DType> results{half};
  for (int i = 0; i < moments; ++i) {
    operands.push_back({moment, shape});
    results.push_back(moment);
  }
  operands.push_back({DType::kF32, shape});
  for (int i = 0; i < numbers; ++i) operands.push_back({DType::kF64, {}});
  return {operands, half, 1 + moments, [=](TileProgramBuilder& b, const std::vector<int>& in) {
            return b.op(op(name), {{"stochastic_rounding", true}}, in, results, kKey.op_id);
          }};
}
NumberedCase with_momentum(const ir::Shape& shape, DType half) {
  return updated("sgd_momentum_update", 1, 5, DType::kF32, shape, half);
}
NumberedCase by_adam(const ir::Shape& shape, DType half) {
  return updated("adam_update", 2, 6, DType::kF32, shape, half);
}
NumberedCase by_adam_of_halves(const ir::Shape& shape, DType half) {
  return updated("adam_update", 2, 6, half, shape, half);
}

// Runs the program in this order, `block` elements at a time, and returns what it made, in plain
// order.
std::vector<TestTensor> results(const NumberedCase& c, const ir::Shape& shape, Kind kind,
                                int64_t block) {
  TileProgramBuilder builder(memory_shape(shape, kind), numbers_in_order(shape, kind));
  const bool last = kind == Kind::kChannelsLast;
  std::vector<TestTensor> tensors;
  std::vector<int> registers;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const auto& [dtype, own] = c.operands[i];
    const double high = dtype == DType::kF64 ? 1 : 4, low = dtype == DType::kF64 ? 0.1 : -4;
    const TestTensor x(dtype, own, low, high, static_cast<uint32_t>(i + 1));
    tensors.push_back(last && own == shape ? reordered(x, true) : x);
    registers.push_back(builder.input(
        dtype, operand_strides(own, own == shape ? kind : Kind::kPlain, shape, kind)));
  }
  const size_t inputs = tensors.size();
  for (int made : c.build(builder, registers)) {
    const size_t result = tensors.size() - inputs;
    const bool written = static_cast<int>(result) < c.written;
    builder.output(made);
    tensors.emplace_back(ir::Type{written ? c.operands[result].dtype : c.half, shape});
  }
  const auto program = builder.finish();
  std::vector<std::byte*> buffers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool in_place = i >= inputs && i - inputs < static_cast<size_t>(c.written);
    buffers.push_back(tensors[in_place ? i - inputs : i].data.data());
  }
  std::vector<std::byte> scratch(program->scratch_bytes() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, space - 64, aligned, space);
  const int64_t all = ir::element_count(shape);
  for (int64_t first = 0; first < all; first += block) {
    program->run(buffers.data(), {.first = first, .cols = std::min(block, all - first)},
                 static_cast<std::byte*>(aligned), kKey);
  }
  std::vector<TestTensor> made;
  for (size_t i = inputs; i < tensors.size(); ++i) {
    const bool in_place = i - inputs < static_cast<size_t>(c.written);
    const TestTensor& stored = tensors[in_place ? i - inputs : i];
    made.push_back(last ? reordered(stored, false) : stored);
  }
  return made;
}

TEST(NumberedPrograms, RoundAsInRowMajorOrder) {
  std::mt19937 random(1);
  auto up_to = [&](int64_t n) { return 1 + static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 60; ++round) {
    const bool many = round % 3 == 0;
    const ir::Shape shape{up_to(3), up_to(many ? 700 : 70), up_to(many ? 4 : 9), up_to(9)};
    for (DType half : {DType::kF16, DType::kBF16}) {
      for (const auto& make :
           {rounded_alone, rounded_sum, with_momentum, by_adam, by_adam_of_halves}) {
        const NumberedCase c = make(shape, half);
        const auto expected = results(c, shape, Kind::kPlain, ir::element_count(shape));
        for (int64_t block : {ir::element_count(shape), int64_t{101}, int64_t{2500}}) {
          const auto made = results(c, shape, Kind::kChannelsLast, block);
          for (size_t i = 0; i < made.size(); ++i) {
            ASSERT_TRUE(made[i] == expected[i])
                << ir::shape_text(shape) << " result " << i << " in blocks of " << block;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
