// Kernels of rows that read and write halves: bit-identical to the float kernels on widened
// operands, rounded once.
#include "half_harness.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Ints;
using ir::Shape;

struct Operand {
  Shape shape;
  bool half = true;  // else indices below `high`, or floats
  int64_t high = 0;  // kAbsent: not given
};
constexpr int64_t kAbsent = -1;
struct RowCase {
  const char* op;
  ir::Attrs attrs;
  std::vector<Operand> operands;
};

TestTensor made(const Operand& operand, DType dtype, uint32_t seed, bool special) {
  if (operand.high > 0) return random_i32(operand.shape, operand.high, seed);
  if (!operand.half) return random_f32(operand.shape, seed);
  return random_halves(dtype, operand.shape, seed, special);
}

// Runs the kernel of an op on operands whose layouts are the kernel's own choice. `floats`: its
// float results are not rounded, as where a step that rounds at random follows.
std::unique_ptr<KernelRun> bound(const RowCase& c, std::vector<TestTensor>& operands, bool floats) {
  std::vector<TestTensor*> given;
  for (size_t i = 0; i < operands.size(); ++i) {
    given.push_back(c.operands[i].high == kAbsent ? nullptr : &operands[i]);
  }
  auto run = std::make_unique<KernelRun>(c.op, c.attrs, given);
  for (size_t i = 0; floats && i < run->outputs.size(); ++i) {
    ir::Type& type = run->request.outputs[i];
    if (!is_half(type.dtype)) continue;
    type.dtype = DType::kF32;
    run->outputs[i] = TestTensor(type);
    run->buffers[given.size() + i] = run->outputs[i].data.data();
  }
  const KernelRow* row = all_kernels().find(c.op);
  if (row->choose_layouts) row->choose_layouts(run->request);
  EXPECT_TRUE(run->bind()) << c.op;
  return run;
}

void expect_rounded_floats(const RowCase& c, DType dtype, bool special, bool floats) {
  SCOPED_TRACE(testing::Message() << c.op << " of " << ir::name(dtype) << ", special " << special
                                  << ", floats " << floats);
  std::vector<TestTensor> operands, wide;
  uint32_t seed = 1;
  for (const Operand& operand : c.operands) {
    operands.push_back(made(operand, dtype, ++seed, special));
    wide.push_back(widened(operands.back()));
  }
  const auto run = bound(c, operands, floats), oracle = bound(c, wide, false);
  expect_deterministic(*run);
  if (!special) expect_same_bits_of_sets(*run);  // NaNs may have other bits
  run->run(1);
  oracle->run(1);
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "result " << i);
    if (run->outputs[i].type.dtype == DType::kI32) {
      ASSERT_TRUE(run->outputs[i] == oracle->outputs[i]);
    } else {
      expect_rounded(run->outputs[i], oracle->outputs[i]);
    }
  }
}

void expect_rounded_floats(const RowCase& c, std::initializer_list<bool> results = {false, true}) {
  static Sample sample(4);
  for (DType dtype : kHalfTypes) {
    for (const bool special : {false, true}) {
      for (const bool floats : results) {
        if (sample.takes()) expect_rounded_floats(c, dtype, special, floats);
      }
    }
  }
}

const int64_t kWidths[] = {1, 7, 16, 33, 200, 515};

TEST(HalfRows, OfNorms) {
  for (int64_t n : kWidths) {
    const ir::Attrs axes{{"axes_count", int64_t{1}}}, groups{{"groups", int64_t{2}}};
    const ir::Attrs layer{{"axes_count", int64_t{1}}, {"eps", 1e-5}};
    const Operand statistics{{5}, false};
    expect_rounded_floats({"layer_norm", layer, {{{5, n}}, {{n}}, {{n}}}});
    expect_rounded_floats({"layer_norm", layer, {{{5, n}}}});
    expect_rounded_floats(
        {"layer_norm_grad", axes, {{{5, n}}, {{n}}, statistics, statistics, {{5, n}}}});
    const ir::Attrs group{{"groups", int64_t{2}}, {"eps", 1e-5}};
    const Operand of_groups{{3, 2}, false};
    expect_rounded_floats({"group_norm", group, {{{3, 4, n}}, {{4}}, {{4}}}});
    expect_rounded_floats(
        {"group_norm_grad", groups, {{{3, 4, n}}, {{4}}, of_groups, of_groups, {{3, 4, n}}}});
    const ir::Attrs batch{{"eps", 1e-5}, {"momentum", 0.1}};
    const Operand channel{{n}, false};
    expect_rounded_floats({"batch_norm", batch, {{{70, n}}, {{n}}, {{n}}, channel, channel}});
    expect_rounded_floats({"batch_norm_grad", {}, {{{70, n}}, {{n}}, channel, channel, {{70, n}}}});
    if (n > 33) continue;
    for (const Shape& planes : {Shape{2, n, 19, 23}, Shape{3, n, 5}}) {
      expect_rounded_floats({"batch_norm", batch, {{planes}, {{n}}, {{n}}, channel, channel}});
      expect_rounded_floats({"batch_norm_grad", {}, {{planes}, {{n}}, channel, channel, {planes}}});
    }
  }
}

TEST(HalfRows, OfSoftmax) {
  for (int64_t n : kWidths) {
    for (const Shape& shape : {Shape{3, n}, Shape{n, 40}, Shape{2, n, 3}}) {
      const bool rows = shape.size() == 2 && shape[1] == n;
      const ir::Attrs along{{"axis", int64_t{std::ssize(shape) - (rows ? 1 : 2)}}};
      expect_rounded_floats({"softmax", along, {{shape}}});
      expect_rounded_floats({"log_softmax", along, {{shape}}});
      expect_rounded_floats({"softmax_grad", along, {{shape}, {shape}}});
      expect_rounded_floats({"log_softmax_grad", along, {{shape}, {shape}}});
    }
  }
}

TEST(HalfRows, OfLosses) {
  for (const char* reduction : {"none", "mean", "sum"}) {
    const ir::Attrs attrs{{"reduction", std::string(reduction)}};
    const Operand scores{{9, 37}}, target{{9}, false, 37};
    const Operand dloss{std::string(reduction) == "none" ? Shape{9} : Shape{}};
    expect_rounded_floats({"softmax_cross_entropy", attrs, {scores, target}});
    expect_rounded_floats({"nll_loss", attrs, {scores, target}});
    const Operand none{{}, false, kAbsent};
    for (const char* op : {"softmax_cross_entropy_grad", "nll_loss_grad"}) {
      expect_rounded_floats({op, attrs, {scores, target, none, dloss}});
    }
  }
}

TEST(HalfRows, OfReductions) {
  Sample sample(4);
  for (const char* op : {"sum", "mean", "max", "min", "prod"}) {
    for (int64_t n : {1, 33, 150}) {
      for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{1, 2}, Ints{0, 1, 2}}) {
        if (!sample.takes()) continue;
        expect_rounded_floats({op, {{"axes", axes}}, {{{2, n, 70}}}});
      }
    }
    expect_rounded_floats({op, {{"axes", Ints{1}}}, {{{3, 3000}}}});
  }
  // This table is read by longer pieces of rows.
  expect_rounded_floats({"sum", {{"axes", Ints{0}}}, {{{260, 1024}}}}, {false});
  // Here parts of the rows have sums that are joined, of more columns than a piece.
  expect_rounded_floats({"sum", {{"axes", Ints{0}}}, {{{900, 1536}}}});
}

TEST(HalfRows, OfScans) {
  for (int64_t n : kWidths) {
    for (int64_t axis : {0, 1}) {
      const ir::Attrs along{{"axis", axis}};
      expect_rounded_floats({"cumsum", along, {{{9, n}}}});
      expect_rounded_floats({"cumprod", along, {{{9, n}}}});
      for (const bool reverse : {false, true}) {
        const ir::Attrs attrs{{"axis", axis}, {"reverse", reverse}};
        expect_rounded_floats({"linear_recurrence", attrs, {{{9, n}}, {{9, n}}}});
      }
    }
  }
}

// Several indices are equal: their blocks are joined before the result is rounded.
TEST(HalfRows, OfJoinedBlocks) {
  for (int64_t n : kWidths) {
    const Operand at{{40}, false, 12};
    const ir::Attrs rows{{"axis", int64_t{0}}};
    expect_rounded_floats({"index_add", rows, {{{12, n}}, at, {{40, n}}}}, {false});
    const ir::Attrs add{{"accumulate", true}};
    expect_rounded_floats({"index_put", add, {{{12, n}}, {{40, n}}, at}}, {false});
  }
}

}  // namespace
}  // namespace poptorch::emulator
