// The IR with a small registry for tests: editing, text, equality, verifier.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/builder.hpp"
#include "ir/effects.hpp"
#include "ir/op_def.hpp"
#include "ir/reorder.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "support/error.hpp"

namespace poptorch::ir {
namespace {

const Registry& registry() {
  static const Registry* instance = [] {
    auto* r = new Registry();
    auto cost = [](const Op&) { return Cost{}; };
    auto stated = [](const InferContext& c) { return c.stated; };
    auto same = [](const InferContext& c) { return std::vector{c.operand(0)}; };
    NoGradient none{"test"};
    r->add({.name = "constant",
            .doc = "d",
            .role = Role::kConstant,
            .inputs = {},
            .outputs = {"y"},
            .attrs = {{"value", AttrType::kLiteral}},
            .infer =
                [](const InferContext& c) { return std::vector{c.attr<Literal>("value").type()}; },
            .grad = none,
            .cost = cost});
    r->add({.name = "variable",
            .doc = "d",
            .role = Role::kState,
            .inputs = {},
            .outputs = {"y"},
            .attrs = {{"name", AttrType::kString}},
            .infer = stated,
            .grad = none,
            .cost = cost});
    r->add({.name = "add",
            .doc = "d",
            .inputs = {"a: number", "b: number"},
            .outputs = {"y"},
            .infer = same,
            .grad = none,
            .cost = cost,
            .commutative = true});
    r->add({.name = "scale",
            .doc = "d",
            .inputs = {"x: float", "bias: float?"},
            .outputs = {"y"},
            .attrs = {{"by", AttrType::kFloat, 1.0},
                      {"mode", AttrType::kString, std::string("up"), {"up", "down"}}},
            .infer = same,
            .grad = none,
            .cost = cost});
    r->add({.name = "assign",
            .doc = "d",
            .inputs = {"dst", "src"},
            .outputs = {},
            .infer = [](const InferContext&) { return std::vector<Type>{}; },
            .grad = none,
            .cost = cost,
            .writes = {0}});
    r->add({.name = "call",
            .doc = "d",
            .role = Role::kCall,
            .inputs = {"xs: any*"},
            .outputs = {"ys*"},
            .attrs = {{"graph", AttrType::kGraph}, {"gradient", AttrType::kGraph, GraphRef{}}},
            .infer = stated,
            .grad = none,
            .cost = cost});
    return r;
  }();
  return *instance;
}

constexpr const char* kText = R"(state "fc.weight" : f32[2] {kind="parameter"}
stream "in" : f32[2] {to_device=true}
remote "rows" : f32[2] {entries=4}
graph @body(%x: f32[2], %acc: &f32[2]) -> (f32[2]) {
  ^assign = assign(%acc, %x)
  %y = scale(%x) {by=0.5, mode="down"} : f32[2] @[ipu=1 stage=2] after(^assign) scope("fc") labels("{\"a\"}")
  return %y
}
graph @main(%x: f32[2]) -> (f32[2]) {
  %w = variable() {name="fc.weight"} : f32[2]
  %c = constant() {value=dense<f32[2]: 1.0, -inf>} : f32[2]
  %s = scale(%x, _) : f32[2]
  %b = scale(%s, %c) : f32[2]
  %r = call(%b, %w) {graph=@body} : f32[2]
  return %r
}
)";

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const support::Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Text, ParsesWhatItPrints) {
  auto module = parse(kText, registry());
  verify(*module);
  std::string text = print(*module);
  auto again = parse(text, registry());
  std::string why;
  EXPECT_TRUE(structurally_equal(*module, *again, &why)) << why;
  EXPECT_EQ(print(*again), text);
  EXPECT_NE(text.find(R"(@[ipu=1 stage=2] after(^assign) scope("fc") labels("{\"a\"}"))"),
            std::string::npos)
      << text;
}

TEST(Text, CloneKeepsTextAndIds) {
  auto module = parse(kText, registry());
  auto copy = module->clone();
  verify(*copy);
  EXPECT_EQ(print(*copy), print(*module));
  EXPECT_EQ(copy->main().first()->id(), module->main().first()->id());
  EXPECT_GT(copy->next_op_id(), copy->main().last()->id());
}

TEST(Text, EqualityIgnoresNamesButNotAttributes) {
  auto a =
      parse("graph @main(%x: f32[1]) -> (f32[1]) {\n%y = scale(%x) {by=2} : f32[1]\nreturn %y\n}",
            registry());
  auto b =
      parse("graph @main(%p: f32[1]) -> (f32[1]) {\n%q = scale(%p) {by=2.0} : f32[1]\nreturn %q\n}",
            registry());
  auto c =
      parse("graph @main(%p: f32[1]) -> (f32[1]) {\n%q = scale(%p) {by=3.0} : f32[1]\nreturn %q\n}",
            registry());
  EXPECT_TRUE(structurally_equal(*a, *b));
  std::string why;
  EXPECT_FALSE(structurally_equal(*a, *c, &why));
  EXPECT_NE(why.find("by=3.0"), std::string::npos) << why;
}

TEST(Text, RefusesBadTextWithPositionAndReason) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"graph @main() -> () {\n  %y = scalle(%x) : f32[1]\n}",
       "text:2:8: there is no op \"scalle\" (closest: 'scale')"},
      {"graph @main(%x: f32[1]) -> () {\n  %y = scale(%z) : f32[1]\n}",
       "expected a value defined before"},
      {"graph @main(%x: f32[1]) -> () {\n  %y = scale(%x) {by=1.0} : f32[2]\n}", "gives f32[1]"},
      {"graph @main(%x: f32[1]) -> () {\n  %y = scale(%x) {mode=\"in\"} : f32[1]\n}",
       "must be one of up, down but is 'in'"},
      {"graph @main(%x: f32[1]) -> () {\n  %y = scale(%x) {bx=1.0} : f32[1]\n}",
       "has no attribute 'bx'; it has: by, mode"},
      {"graph @main(%x: i32[1]) -> () {\n  %y = scale(%x) : i32[1]\n}",
       "operand 'x' must be float but is i32[1]"},
      {"graph @main(%x: f32[1]) -> (f32[2]) {\n  return %x\n}", "returns values of other types"},
      {"graph @main(%x: f32[9999999999,9999999999]) -> () { return }",
       "more than 68719476736 elements"},
      {"graph @main(%x: f32[2], %x: f32[2]) -> () { return }", "%x is defined twice"},
      {"state \"a\" : f32[1] {kind=3}", "wrong type"},
      {"graph @main() -> () { return } graph @main() -> () { return }", "@main is defined twice"},
  };
  for (const Case& c : cases) {
    std::string got = message_of([&] { parse(c.text, registry()); });
    EXPECT_NE(got.find(c.expected), std::string::npos) << c.text << "\ngave: " << got;
  }
}

TEST(Text, NeverCrashesOnTruncatedText) {
  std::string text = kText;
  for (size_t length = 0; length < text.size(); ++length) {
    try {
      parse(text.substr(0, length), registry());
    } catch (const support::UserError&) {
    }
  }
}

TEST(Graph, UsesFollowEdits) {
  auto module = parse(kText, registry());
  Graph& main = module->main();
  Value* x = main.inputs()[0].get();
  Builder builder(main, main.first());
  Value* doubled = builder.value("add", {x, x});
  EXPECT_EQ(x->uses().size(), 3u);
  x->replace_all_uses_with(doubled);
  EXPECT_TRUE(x->uses().empty());
  doubled->producer()->set_operand(0, x);
  doubled->producer()->set_operand(1, x);
  verify(*module);
  EXPECT_TRUE(doubled->producer()->is_before(main.last()));
  Op* last = main.last();
  EXPECT_NE(message_of([&] { main.erase(last); }).find("erased while its result is used"),
            std::string::npos);
}

TEST(Graph, ErasingAnOpHandsItsControlEdgesOn) {
  auto module = parse(
      "graph @main(%x: f32[2]) -> () {\n%a = scale(%x) : f32[2]\n"
      "%b = scale(%x) : f32[2] after(%a)\n%c = scale(%x) : f32[2] after(%b)\nreturn\n}",
      registry());
  Graph& main = module->main();
  Op *a = main.first(), *c = main.last();
  main.erase(a->next());
  verify(*module);
  EXPECT_EQ(c->after(), std::vector<Op*>{a});
  main.erase(a);
  verify(*module);
  EXPECT_TRUE(c->after().empty());
}

TEST(Graph, CopyOpsInlinesACall) {
  auto module = parse(kText, registry());
  Graph& main = module->main();
  Op* call = main.last();
  auto results = copy_ops(*module->find_graph("body"), main, call->operands(), call);
  call->result()->replace_all_uses_with(results[0]);
  main.erase(call);
  verify(*module);
  EXPECT_TRUE(main.outputs()[0]->producer()->is("scale"));
}

TEST(Effects, FollowsStateAndWrites) {
  auto module = parse(kText, registry());
  Op* variable = module->main().first();
  EXPECT_TRUE(is_state(variable->result()));
  EXPECT_FALSE(is_pure(*variable));
  EXPECT_FALSE(is_removable(*module->main().last()));  // the callee writes its reference
  EXPECT_TRUE(is_removable(*variable));
}

// Returns whether %v can be moved before the op that makes %at, and then the names of the results.
std::string brought(const std::string& body) {
  auto module = parse(
      "state \"s\" : f32[2] {kind=\"parameter\"}\n"
      "graph @main(%x: f32[2]) -> (f32[2]) {\n" +
          body + "  return %v\n}\n",
      registry());
  Graph& main = module->main();
  Op* at = nullptr;
  for (Op* op : main.ops()) {
    if (op->result_count() && op->result()->name() == "at") at = op;
  }
  Value& v = *main.outputs()[0];
  const bool can = bring_before(v, *at, true);
  EXPECT_EQ(bring_before(v, *at), can);
  if (!can) return "no";
  verify(*module);
  EXPECT_TRUE(v.producer()->is_before(at));
  std::string order;
  for (Op* op : main.ops()) order += op->result_count() ? op->result()->name() : "!";
  return order;
}

TEST(Reorder, MovesWhatChangesNothing) {
  const std::string at = "  %at = scale(%x) : f32[2]\n", v = "  %v = scale(%a) : f32[2]\n";
  const std::string a = "  %a = scale(%x) : f32[2]\n",
                    s = "  %s = variable() {name=\"s\"} : f32[2]\n";
  const std::string write = "  assign(%s, %x)\n", b = "  %b = scale(%at) : f32[2]\n";
  const std::string reads = "  %a = scale(%s) : f32[2]\n";
  EXPECT_EQ(brought(a + v + at), "avat");       // it is there already
  EXPECT_EQ(brought(at + b + a + v), "avatb");  // up, with what makes it
  EXPECT_EQ(brought(s + at + b + write + a + v), "savatb!");
  EXPECT_EQ(brought(s + at + b + reads + v), "savatb");           // nothing is written between
  EXPECT_EQ(brought(s + at + b + write + reads + v), "s!avatb");  // the op goes down instead
  EXPECT_EQ(brought(at + "  %a = scale(%at) : f32[2]\n" + v), "no");
  const std::string state_at = "  %at = scale(%s) : f32[2]\n";
  EXPECT_EQ(brought(s + state_at + write + reads + v), "no");
  EXPECT_EQ(brought(s + state_at + write + a + v), "savat!");
}

// Returns a row that has only the role, these operands and this attribute.
OpDef row_of(Role role, std::vector<std::string> inputs, std::vector<AttrDef> attrs) {
  return {.name = "op",
          .doc = "d",
          .role = role,
          .inputs = std::move(inputs),
          .outputs = {"ys*"},
          .attrs = std::move(attrs),
          .infer = [](const InferContext& c) { return c.stated; },
          .grad = NoGradient{"test"},
          .cost = [](const Op&) { return Cost{}; }};
}

TEST(Registry, RefusesRowsThatLackWhatTheirRoleNames) {
  const AttrDef graph{"graph", AttrType::kGraph}, count{"count", AttrType::kInt};
  const AttrDef gradient{"gradient", AttrType::kGraph, GraphRef{}};
  const std::vector<std::string> any = {"xs: any*"};
  const std::vector<std::pair<OpDef, const char*>> cases = {
      {row_of(Role::kCopy, {"x"}, {}), "lacks the attribute"},
      {row_of(Role::kCopy, {"x"}, {{"to", AttrType::kFloat}}), "lacks the attribute"},
      {row_of(Role::kPlain, any, {graph}), "names no graph"},
      {row_of(Role::kRegion, any, {gradient}), "names no graph"},
      {row_of(Role::kRegion, {"x"}, {graph, count}), "has no operands"},
      {row_of(Role::kRegion, any, {graph}), "has no count"},
      {row_of(Role::kOpaque, {"x"}, {}), "has a provider"},
      {row_of(Role::kRegion, any, {graph, count}), "nothing thrown"},
      {row_of(Role::kCall, any, {graph, gradient}), "nothing thrown"}};
  for (const auto& [row, text] : cases) {
    Registry rows;
    const std::string got = message_of([&, row = row] { rows.add(row); });
    EXPECT_NE(got.find(text), std::string::npos) << got;
  }
}

TEST(Verify, NamesTheBrokenRule) {
  auto module = parse(kText, registry());
  Graph& main = module->main();
  main.move_before(main.last(), main.first());
  EXPECT_NE(message_of([&] { verify(*module); }).find("is not defined before its use"),
            std::string::npos);
  auto by_value = parse("graph @main(%x: f32[1]) -> () { return }", registry());
  Value* x = by_value->main().inputs()[0].get();
  Builder(by_value->main()).emit("assign", {x, x});
  EXPECT_NE(message_of([&] { verify(*by_value); }).find("is a by-value input"), std::string::npos);
  auto retyped = parse(kText, registry());
  retyped->main().last()->operand(0)->set_type({DType::kF32, {3}});
  EXPECT_NE(message_of([&] { verify(*retyped); }).find("result types"), std::string::npos);
}

TEST(Text, EverythingIsReadBack) {
  const std::string text =
      "graph @main(%x: f32[2]) -> (f32[2], f32[2]) {\n"
      "  #9 %y = scale(%x) : f32[2] loc(\"a.py\":3)\n"
      "  #3 %z = scale(%y) : f32[2] grad(%y)\n"
      "  #12 %u = scale(%z) : f32[2] grad\n"
      "  return %u, %z\n}\n";
  const auto module = parse(text, registry());
  EXPECT_EQ(print(*module, kEverything), text);
  EXPECT_EQ(module->main().first()->next()->forward_id, 9U);
  EXPECT_EQ(module->main().last()->forward_id, kNoForwardOp);
  EXPECT_EQ(module->next_op_id(), 13U);
  EXPECT_EQ(print(*module->clone(), kEverything), text);
  std::string why;
  EXPECT_TRUE(structurally_equal(*module, *parse(print(*module), registry()), &why)) << why;
  module->main().last()->forward_id = 3;
  EXPECT_FALSE(structurally_equal(*module, *parse(text, registry()), &why));
}

TEST(Literal, HalfAndBfloat16RoundToNearestEven) {
  EXPECT_EQ(to_half_bits(1.0), 0x3c00);
  EXPECT_EQ(to_half_bits(65504.0), 0x7bff);
  EXPECT_EQ(to_half_bits(65520.0), 0x7c00);  // rounds to infinity
  EXPECT_EQ(to_half_bits(5.9604644775390625e-08), 0x0001);
  EXPECT_EQ(to_half_bits(2.9802322387695312e-08), 0x0000);  // a tie goes to even
  EXPECT_EQ(to_half_bits(1.00048828125), 0x3c00);           // a tie goes to even
  EXPECT_EQ(to_bfloat16_bits(-2.0), 0xc000);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    double value = from_half_bits(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(to_half_bits(value), bits);
    }
  }
}

TEST(Literal, Float8RoundsToNearestEven) {
  auto bits = [](DType dtype, double value) {
    return static_cast<int>(*Literal::scalar(dtype, value).as<uint8_t>());
  };
  EXPECT_EQ(bits(DType::kF8_143, 0), 0);
  EXPECT_EQ(bits(DType::kF8_143, 1.5), 8 << 3 | 4);
  EXPECT_EQ(bits(DType::kF8_143, -1.0625), 0x80 | 8 << 3);  // a tie goes to even
  EXPECT_EQ(bits(DType::kF8_143, 1e6), 0x80);               // NaN
  EXPECT_EQ(bits(DType::kF8_152, 1.5), 16 << 2 | 2);
  EXPECT_EQ(*Literal::scalar(DType::kF8_152, int64_t{2}).as<uint8_t>(), 17 << 2);
}

}  // namespace
}  // namespace poptorch::ir
