// Custom ops: refusals at registration and at use, results and gradients. The ops are in
// tests/fuzz/scale_op.cpp.
#include "include/poptorch/custom_op.hpp"

#include <functional>

#include "engine_testing.hpp"
#include "error_text.hpp"
#include "ir/verify.hpp"
#include "ops/custom_ops.hpp"
#include "support/error.hpp"
#include "transforms/autodiff.hpp"

namespace poptorch::emulator {
namespace {

using Floats = std::vector<float>;

// Returns a graph that uses an op on two vectors.
std::string graph_of(const std::string& attributes) {
  return "graph @main(%x: f32[3], %s: f32[3]) -> (f32[3]) {\n  %y = custom(%x, %s) {" + attributes +
         "} : f32[3]\n  return %y\n}\n";
}

std::string refusal_of(const std::string& attributes) {
  const std::string text =
      text_of<support::Error>([&] { ir::parse(graph_of(attributes), ops::registry(), "text"); });
  const size_t begin = text.find("[custom_op]");
  return begin == std::string::npos ? text : text.substr(begin);
}

std::string use(const std::string& own) {
  return R"(domain="test", name="Scale", attributes=")" + own + "\"";
}

TEST(CustomOps, ComputeWhatTheirLibrarySays) {
  const std::string text = graph_of(use(R"({\"factor\": 3.0})"));
  Engine engine(lowered(text), ops::registry(), {.threads = 1});
  const std::vector<Bytes> inputs{bytes_of(Floats{1, 2, 3}), bytes_of(Floats{0, 1, 0})};
  EXPECT_EQ(values_of<float>(run_once(engine, inputs)[0]), (Floats{3, 7, 9}));
  const auto module = ir::parse(text, ops::registry());
  EXPECT_EQ(ir::print(*ir::parse(ir::print(*module), ops::registry())), ir::print(*module));
  EXPECT_EQ(
      text_of<support::Error>([&] { run_once(engine, {bytes_of(Floats{1, 101, 3}), inputs[1]}); }),
      "[custom_op] op 'Scale' of domain 'test', version 1 failed: element 1 is too "
      "large");
  EXPECT_EQ(values_of<float>(run_once(engine, inputs)[0]), (Floats{3, 7, 9}));
}

TEST(CustomOps, KnowTheirReplicaAndMayTakeSums) {
  const auto run = [](const std::string& attributes) {
    const std::string text = graph_of(attributes);
    Engine engine(lowered(text, {.replication_factor = 2}), ops::registry(), {.threads = 2});
    const std::vector<Bytes> inputs{bytes_of(Floats{1, 2, 3, 10, 20, 30}),
                                    bytes_of(Floats{0, 0, 0, 0, 0, 0})};
    return values_of<float>(run_once(engine, inputs)[0]);
  };
  EXPECT_EQ(run(use("{}")), (Floats{2, 4, 6, 21, 41, 61}));
  ir::Module module(ops::registry());
  ir::Graph& main = module.add_graph("main");
  ir::Value* x = main.add_input({ir::DType::kF32, {3}}, "x");
  ir::Builder builder(main);
  const ir::Op* op =
      ops::emit_custom(builder, {"test", "ScaleSums", 3}, R"({"factor": 1.0})", {x, x});
  EXPECT_EQ(op->operand(0)->producer()->name(), "all_reduce");
  EXPECT_EQ(op->operand(1), x);
}

TEST(CustomOps, AreRefusedByName) {
  EXPECT_EQ(refusal_of(R"(domain="test", name="Scael")"),
            "[custom_op] there is no op 'Scael' of domain 'test', version 1, in this process. Did "
            "you mean 'Scale' of domain 'test', version 1? Load the library that has it with "
            "ctypes.cdll.LoadLibrary before the model is compiled or the program is loaded.");
  EXPECT_NE(refusal_of(R"(domain="test", name="Scale", version=2)")
                .find("Did you mean 'Scale' of domain 'test', version 1?"),
            std::string::npos);
  EXPECT_EQ(refusal_of(use(R"({\"facter\": 1.0})")),
            "[custom_op] op 'Scale' of domain 'test', version 1 has no attribute 'facter'. Did you "
            "mean 'factor'?");
  EXPECT_EQ(refusal_of(use(R"({\"factor\": 1})")),
            "[custom_op] op 'Scale' of domain 'test', version 1 has attribute 'factor' as a float "
            "but got an int, 1.");
  EXPECT_EQ(refusal_of(use(R"({\"factor\": 1.0, \"factor\": 2.0})")),
            "[custom_op] attribute 'factor' is given twice.");
  EXPECT_NE(refusal_of(use(R"({\"factor\": 1e39})")).find("too high for a Popart float"),
            std::string::npos);
  EXPECT_NE(refusal_of(use(R"({\"factor\": true})")).find("expected floats, integers or strings"),
            std::string::npos);
  EXPECT_EQ(refusal_of(R"(domain="test", name="ScaleSums", version=3)"),
            "[custom_op] op 'ScaleSums' of domain 'test', version 3 needs attribute 'factor', a "
            "float. Give it in `attributes`.");
  EXPECT_EQ(refusal_of(R"(domain="test", name="ScaleGrad", attributes="{\"factor\": 1.0}")"),
            "[custom_op] op 'ScaleGrad' of domain 'test', version 1 takes 1 inputs but got 2.");
}

// An op whose functions the test sets.
custom::Op made(const std::string& name) {
  return {.domain = "test",
          .name = name,
          .inputs = 2,
          .infer = [](const custom::Call& call) { return std::vector{call.input(0)}; },
          .compute = [](const custom::Call&) {}};
}

std::string refusal_of(custom::Op op) {
  const std::string name = op.name;
  const custom::Register registered(std::move(op));
  return refusal_of("domain=\"test\", name=\"" + name + "\"");
}

TEST(CustomOps, AreRefusedWhenTheirDeclarationIsNotSound) {
  const auto unusable = [](const std::string& name, const std::string& why) {
    return "[custom_op] op '" + name + "' of domain 'test', version 1 cannot be used: " + why;
  };
  custom::Op op = made("NoCompute");
  op.compute = nullptr;
  EXPECT_EQ(refusal_of(op), unusable("NoCompute", "it lacks `infer` or `compute`."));
  op = made("Twice");
  op.attributes = {custom::attribute("a", 1.0f), custom::attribute("a", 2.0f)};
  EXPECT_EQ(refusal_of(op), unusable("Twice", "it declares attribute 'a' twice."));
  op = made("Outside");
  op.gradient = custom::Gradient{.name = "G", .inputs = {custom::gradient(1)}, .of = {0}};
  EXPECT_EQ(refusal_of(op), unusable("Outside", "output 1 is named, but there are 1."));
  PoptorchCustomOp old{};
  old.abi = POPTORCH_CUSTOM_OP_ABI + 1;
  old.version = 1;
  old.domain = "test";
  old.name = "OfTomorrow";
  EXPECT_EQ(poptorch_register_custom_op(&old), 1);
  EXPECT_EQ(refusal_of(R"(domain="test", name="OfTomorrow")"),
            unusable("OfTomorrow",
                     "its library was built for version 2 of the interface of custom ops, but this "
                     "PopTorch has version 1. Build the library again."));
}

TEST(CustomOps, AreRefusedForWhatTheirFunctionsGive) {
  custom::Op op = made("Throws");
  op.infer = [](const custom::Call&) -> std::vector<custom::Type> { throw 1; };
  EXPECT_EQ(refusal_of(op),
            "[custom_op] op 'Throws' of domain 'test', version 1 refuses its inputs or attributes: "
            "it threw something that is not a std::exception");
  op = made("Two");
  op.infer = [](const custom::Call& call) { return std::vector(2, call.input(0)); };
  EXPECT_EQ(refusal_of(op),
            "[custom_op] op 'Two' of domain 'test', version 1 declares 1 outputs, but its infer "
            "gives 2 types.");
  op = made("Negative");
  op.infer = [](const custom::Call&) { return std::vector{custom::Type{{}, {-1}}}; };
  EXPECT_NE(refusal_of(op).find("gives an impossible output 0"), std::string::npos);
  op = made("Strange");
  op.infer = [](const custom::Call&) {
    return std::vector{custom::Type{static_cast<custom::DType>(77), {1}}};
  };
  EXPECT_NE(refusal_of(op).find("a type or a number of dimensions that no tensor has"),
            std::string::npos);
  op = made("Wide");
  op.infer = [](const custom::Call&) {
    return std::vector{custom::Type{custom::DType::Double, {1}}};
  };
  EXPECT_NE(refusal_of(op).find("cannot give f64[1] as output 0"), std::string::npos);
  op = made("Elsewhere");
  op.infer = [](const custom::Call& call) {
    call.in<float>(0);
    return std::vector{call.input(0)};
  };
  EXPECT_NE(refusal_of(op).find("elements are available only in compute"), std::string::npos);
}

TEST(CustomOps, HaveTheGradientsOfTheirGradientOps) {
  const auto module =
      ir::parse(graph_of(use(R"({\"factor\": 3.0, \"label\": \"x\"})")), ops::registry());
  ir::Graph& main = module->main();
  const auto made =
      transforms::autodiff(main, {0}, {main.inputs()[0].get(), main.inputs()[1].get()});
  ASSERT_EQ(made.gradient->outputs().size(), 2u);
  const ir::Op* op = made.gradient->outputs()[0]->producer();
  EXPECT_EQ(op->attr<std::string>("name"), "ScaleGrad");
  EXPECT_EQ(op->attr<std::string>("attributes"), R"({"factor": 3.0})");
  ir::verify(*module);
}

TEST(CustomOps, WithoutAGradientAreRefusedWhereOneIsNeeded) {
  const auto module = ir::parse(
      graph_of(R"(domain="test", name="ScaleSums", version=3, attributes="{\"factor\": 1.0}")"),
      ops::registry());
  ir::Graph& main = module->main();
  EXPECT_EQ(
      text_of<support::Error>([&] { transforms::autodiff(main, {0}, {main.inputs()[0].get()}); }),
      "[autodiff] custom op 'ScaleSums' of domain 'test', version 3 has no gradient op, but a "
      "parameter's gradient passes through it. Declare one (in Python: @op.gradient, with the "
      "op's name), or detach its inputs.");
}

}  // namespace
}  // namespace poptorch::emulator
