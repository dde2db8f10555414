// The interpreter: loops, branches, references, state, streams and replicas.
#include "reference/interpreter.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"

namespace poptorch::reference {
namespace {

std::unique_ptr<ir::Module> parsed(const char* text) {
  auto module = ir::parse(text, ops::registry());
  ir::verify(*module);
  return module;
}

ir::Literal floats(ir::Shape shape, std::vector<float> values) {
  std::vector<std::byte> data(values.size() * 4);
  std::memcpy(data.data(), values.data(), data.size());
  return {{ir::DType::kF32, std::move(shape)}, std::move(data)};
}

TEST(Interpreter, RepeatsACallThatWritesByReference) {
  auto module = parsed(R"(
graph @body(%x: f32[2], %sum: &f32[2]) -> (f32[2]) {
  ^a = accumulate(%sum, %x)
  %y = add(%x, %x) : f32[2]
  return %y
}
graph @main(%x: f32[2]) -> (f32[2], f32[2]) {
  %s = variable() {name="sum"} : f32[2]
  %r = repeat(%x, %s) {count=3, graph=@body} : f32[2]
  %t = identity(%s) : f32[2]
  return %r, %t
})");
  Interpreter interpreter(*module);
  auto out = interpreter.run_one({floats({2}, {1, 2})});
  EXPECT_EQ(out[0], floats({2}, {8, 16}));
  EXPECT_EQ(out[1], floats({2}, {7, 14}));
  EXPECT_EQ(interpreter.state("sum"), floats({2}, {7, 14}));
}

TEST(Interpreter, BranchesAndStreams) {
  auto module = parsed(R"(
stream "in" : f32[1] {to_device=true}
stream "out" : f32[1] {to_device=false}
graph @yes(%x: f32[1]) -> (f32[1]) {
  %y = neg(%x) : f32[1]
  return %y
}
graph @no(%x: f32[1]) -> (f32[1]) {
  return %x
}
graph @main() -> () {
  %x = host_load() {stream="in"} : f32[1]
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  %s = sum(%x) {axes=[0]} : f32[]
  %c = lt(%s, %zero) : bool[]
  %y = if(%c, %x) {else=@no, then=@yes} : f32[1]
  host_store(%y) {stream="out"}
  return
})");
  Interpreter interpreter(*module);
  interpreter.stream("in") = {floats({1}, {-3}), floats({1}, {4})};
  interpreter.run_one({});
  interpreter.run_one({});
  EXPECT_EQ(interpreter.stream("out"),
            (std::vector<ir::Literal>{floats({1}, {3}), floats({1}, {4})}));
}

TEST(Interpreter, ReducesOverGroupsOfReplicas) {
  auto module = parsed(R"(
graph @main(%x: f32[1]) -> (f32[1], f32[2,1], f32[1]) {
  %y = all_reduce(%x) {group_size=2, group_stride=2} : f32[1]
  %z = all_gather(%x) {group_size=2} : f32[2,1]
  %own = reduce_scatter(%z) {group_size=2, op="local"} : f32[1]
  return %y, %z, %own
})");
  Interpreter interpreter(*module, 4);
  auto out = interpreter.run(
      {{floats({1}, {1})}, {floats({1}, {2})}, {floats({1}, {3})}, {floats({1}, {4})}});
  EXPECT_EQ(out[0][0], floats({1}, {4}));
  EXPECT_EQ(out[3][0], floats({1}, {6}));
  EXPECT_EQ(out[3][1], floats({2, 1}, {3, 4}));
  EXPECT_EQ(out[2][2], floats({1}, {3}));
}

TEST(Interpreter, ExchangesRowsBetweenReplicas) {
  auto module = parsed(R"(
graph @main(%x: f32[2,1]) -> (f32[2,1]) {
  %y = all_to_all(%x) {group_size=2, group_stride=2} : f32[2,1]
  return %y
})");
  Interpreter interpreter(*module, 4);
  auto rows = [](float first) { return std::vector{floats({2, 1}, {first, first + 1})}; };
  auto out = interpreter.run({rows(0), rows(2), rows(4), rows(6)});
  EXPECT_EQ(out[0][0], floats({2, 1}, {0, 4}));
  EXPECT_EQ(out[2][0], floats({2, 1}, {1, 5}));
  EXPECT_EQ(out[3][0], floats({2, 1}, {3, 7}));
}

}  // namespace
}  // namespace poptorch::reference
