// Gradients of slices that do not overlap become one value, with the sum that additions give.
#include "transforms/slice_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ir/module.hpp"
#include "ops/all_ops.hpp"
#include "reference/interpreter.hpp"

namespace poptorch::transforms {
namespace {

using ir::Ints;
using ir::Type;
using ir::Value;

struct Box {
  Ints starts, stops, steps;
};

struct Case {
  const char* title;
  std::vector<Box> boxes;  // of a [4, 6] tensor
  bool dense;              // whether a part is the whole tensor
  size_t parts;            // that are left
  const char* first;       // op that makes the first part
};

const std::vector<Case> kCases = {
    {"halves", {{{0, 3}, {4, 6}, {1, 1}}, {{0, 0}, {4, 3}, {1, 1}}}, false, 1, "concat"},
    {"rows with a gap",
     {{{3, 0}, {4, 6}, {1, 1}}, {{0, 0}, {2, 6}, {1, 1}}},
     false,
     1,
     "insert_slice"},
    {"even and odd columns",
     {{{0, 0}, {4, 5}, {1, 2}}, {{0, 1}, {4, 6}, {1, 2}}},
     false,
     1,
     "insert_slice"},
    {"windows that overlap",
     {{{0, 0}, {4, 4}, {1, 1}}, {{0, 2}, {4, 6}, {1, 1}}},
     false,
     2,
     "insert_slice"},
    {"two of three overlap",
     {{{0, 0}, {4, 4}, {1, 1}}, {{0, 2}, {4, 6}, {1, 1}}, {{0, 4}, {4, 6}, {1, 1}}},
     false,
     2,
     "concat"},
    {"tiles",
     {{{0, 0}, {2, 3}, {1, 1}}, {{2, 3}, {4, 6}, {1, 1}}, {{0, 3}, {2, 6}, {1, 1}}},
     true,
     2,
     "insert_slice"},
};

std::vector<float> run(ir::Module& module, const std::vector<ir::Literal>& inputs) {
  reference::Interpreter interpreter(module);
  const auto found = interpreter.run_one(inputs);
  std::vector<float> values;
  for (int64_t i = 0; i < found[0].type().elements(); ++i) {
    values.push_back(static_cast<float>(found[0].number_at(i)));
  }
  return values;
}

class SliceSums : public testing::TestWithParam<Case> {};

TEST_P(SliceSums, KeepTheSum) {
  const Case& c = GetParam();
  std::vector<float> sums[2];
  for (const bool joined : {false, true}) {
    ir::Module module(ops::registry());
    ir::Graph& main = module.add_graph("main");
    ir::Builder b(main);
    const Type whole{ir::DType::kF32, {4, 6}};
    Value* zeros =
        b.value("broadcast_to", {b.scalar(whole.dtype, 0.0)}, {{"shape", Ints(whole.shape)}});
    std::vector<Value*> parts;
    std::vector<ir::Literal> inputs;
    auto input = [&](const ir::Shape& shape) {
      std::vector<float> numbers(static_cast<size_t>(ir::element_count(shape)));
      std::iota(numbers.begin(), numbers.end(), static_cast<float>(1 + 30 * inputs.size()));
      std::vector<std::byte> data(numbers.size() * sizeof(float));
      std::memcpy(data.data(), numbers.data(), data.size());
      inputs.push_back({Type{whole.dtype, shape}, std::move(data)});
      return main.add_input({whole.dtype, shape}, "x" + std::to_string(inputs.size()));
    };
    if (c.dense) parts.push_back(input(whole.shape));
    for (const Box& box : c.boxes) {
      ir::Shape shape;
      for (size_t d = 0; d < 2; ++d) {
        shape.push_back((box.stops[d] - box.starts[d] + box.steps[d] - 1) / box.steps[d]);
      }
      parts.push_back(
          b.value("insert_slice", {zeros, input(shape)},
                  {{"starts", box.starts}, {"stops", box.stops}, {"steps", box.steps}}));
    }
    if (joined) {
      join_slices(b, parts);
      EXPECT_EQ(parts.size(), c.parts);
      EXPECT_EQ(parts[c.dense ? 1 : 0]->producer()->name(), c.first);
    }
    Value* sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = b.value("add", {sum, parts[i]});
    main.add_output(sum);
    sums[joined] = run(module, inputs);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

INSTANTIATE_TEST_SUITE_P(Cases, SliceSums, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.title;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace poptorch::transforms
