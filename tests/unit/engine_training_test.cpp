// Training steps of small networks: bit-identical on any number of threads, with and without fused
// chains, and close to the reference kernels in all layouts.
#include <cmath>

#include "compile/pipeline.hpp"
#include "engine_testing.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

struct Net {
  const char* title;
  const char* text;
};

const Net kNets[] = {
    {"convolutions, batch norm, residual, dropout", R"(
state "w1" : f32[8,3,3,3]
state "g" : f32[8]
state "be" : f32[8]
state "rm" : f32[8] {kind="buffer"}
state "rv" : f32[8] {kind="buffer"}
state "w2" : f32[8,8,3,3]
state "w4" : f32[10,8]
state "b4" : f32[10]
graph @main(%x: f32[4,3,16,16], %t: i32[4]) -> (f32[4,10], f32[]) {
  %w1 = variable() {name="w1"} : f32[8,3,3,3]
  %w2 = variable() {name="w2"} : f32[8,8,3,3]
  %g = variable() {name="g"} : f32[8]
  %be = variable() {name="be"} : f32[8]
  %rm = variable() {name="rm"} : f32[8]
  %rv = variable() {name="rv"} : f32[8]
  %w4 = variable() {name="w4"} : f32[10,8]
  %b4 = variable() {name="b4"} : f32[10]
  %c1 = conv(%x, %w1, _) {strides=[2,2], padding=[1,1], dilation=[1,1]} : f32[4,8,8,8]
  %n1, %mean, %is, %nrm, %nrv = batch_norm(%c1, %g, %be, %rm, %rv) {momentum=0.1, eps=1e-5} : f32[4,8,8,8], f32[8], f32[8], f32[8], f32[8]
  assign(%rm, %nrm)
  assign(%rv, %nrv)
  %r1 = relu(%n1) : f32[4,8,8,8]
  %c2 = conv(%r1, %w2, _) {strides=[1,1], padding=[1,1], dilation=[1,1]} : f32[4,8,8,8]
  %s = add(%c2, %r1) : f32[4,8,8,8]
  %r2 = relu(%s) : f32[4,8,8,8]
  %d, %mask = dropout(%r2) {p=0.25} : f32[4,8,8,8], bool[4,8,8,8]
  %f = mean(%d) {axes=[2,3]} : f32[4,8]
  %y = linear(%f, %w4, %b4) : f32[4,10]
  %l, %lp = softmax_cross_entropy(%y, %t) {reduction="mean"} : f32[], f32[4,10]
  %loss = identity_loss(%l) {reduction="none"} : f32[]
  return %y, %loss
}
)"},
    {"embedding, attention, layer norm", R"(
state "e" : f32[50,16]
state "wq" : f32[48,16]
state "bq" : f32[48]
state "g" : f32[16]
state "be" : f32[16]
state "w4" : f32[3,16]
state "b4" : f32[3]
graph @main(%x: i32[2,6], %t: i32[2]) -> (f32[2,3], f32[]) {
  %e = variable() {name="e"} : f32[50,16]
  %wq = variable() {name="wq"} : f32[48,16]
  %bq = variable() {name="bq"} : f32[48]
  %g = variable() {name="g"} : f32[16]
  %be = variable() {name="be"} : f32[16]
  %w4 = variable() {name="w4"} : f32[3,16]
  %b4 = variable() {name="b4"} : f32[3]
  %h = embedding(%e, %x) : f32[2,6,16]
  %qkv = linear(%h, %wq, %bq) : f32[2,6,48]
  %r = reshape(%qkv) {shape=[2,6,3,2,8]} : f32[2,6,3,2,8]
  %p = transpose(%r) {permutation=[2,0,3,1,4]} : f32[3,2,2,6,8]
  %q0 = slice(%p) {starts=[0,0,0,0,0], stops=[1,2,2,6,8], steps=[1,1,1,1,1]} : f32[1,2,2,6,8]
  %k0 = slice(%p) {starts=[1,0,0,0,0], stops=[2,2,2,6,8], steps=[1,1,1,1,1]} : f32[1,2,2,6,8]
  %v0 = slice(%p) {starts=[2,0,0,0,0], stops=[3,2,2,6,8], steps=[1,1,1,1,1]} : f32[1,2,2,6,8]
  %q = reshape(%q0) {shape=[2,2,6,8]} : f32[2,2,6,8]
  %k = reshape(%k0) {shape=[2,2,6,8]} : f32[2,2,6,8]
  %v = reshape(%v0) {shape=[2,2,6,8]} : f32[2,2,6,8]
  %o, %lse = attention(%q, %k, %v, _) {scale=0.35355} : f32[2,2,6,8], f32[2,2,6]
  %ot = transpose(%o) {permutation=[0,2,1,3]} : f32[2,6,2,8]
  %om = reshape(%ot) {shape=[2,6,16]} : f32[2,6,16]
  %s = add(%om, %h) : f32[2,6,16]
  %n, %mean, %is = layer_norm(%s, %g, %be) {axes_count=1, eps=1e-5} : f32[2,6,16], f32[2,6], f32[2,6]
  %f = mean(%n) {axes=[1]} : f32[2,16]
  %y = linear(%f, %w4, %b4) : f32[2,3]
  %l, %lp = softmax_cross_entropy(%y, %t) {reduction="mean"} : f32[], f32[2,3]
  %loss = identity_loss(%l) {reduction="none"} : f32[]
  return %y, %loss
}
)"},
};

program::Program compiled(const Net& net, const std::string& optimiser, int64_t accumulation) {
  auto module = ir::parse(net.text, ops::registry());
  ir::Execution& options = module->execution();
  options.training = true;
  options.device_iterations = 2;
  options.gradient_accumulation = accumulation;
  ir::OptimiserGroup group;
  if (optimiser == "sgd") {
    group.values = {{"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"dampening", 0.0}};
  } else {
    group.values = {
        {"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-3}, {"weight_decay", 0.01}};
  }
  group.variable = {"lr"};
  for (const auto& slot : module->states()) {
    if (slot->kind == "parameter") group.parameters.push_back(slot->name.text());
  }
  ir::OptimiserSpec spec;
  spec.kind = optimiser;
  spec.groups = {group};
  options.optimiser = spec;
  return std::move(compile::compile_to_program(std::move(module), {}, {}).program);
}

TEST(EngineTraining, IsTheSameEveryWay) {
  Sample sample;
  for (const Net& net : kNets) {
    for (const char* optimiser : {"sgd", "adamw"}) {
      for (int64_t accumulation : {1, 2}) {
        if (!sample.takes()) continue;
        SCOPED_TRACE(std::string(net.title) + " " + optimiser);
        const program::Program program = compiled(net, optimiser, accumulation);
        const Outcome one = outcome(program, {.threads = 1});
        EXPECT_EQ(outcome(program, {.threads = 2}), one);
        EXPECT_EQ(outcome(program, {.threads = 4}), one);
        EXPECT_EQ(outcome(program, {.threads = 2, .fuse = false}), one);
        for (const EngineOptions& other : {EngineOptions{.threads = 1, .layouts = false},
                                           EngineOptions{.threads = 1, .reference_only = true}}) {
          const Outcome close = outcome(program, other);
          for (size_t i = 0; i < one.outputs.size(); ++i) {
            expect_close(one.outputs[i], close.outputs[i], "output " + std::to_string(i));
          }
          for (const program::State& state : program.states) {
            const std::string& name = state.slot.name.text();
            if (state.slot.type.dtype != ir::DType::kF32) continue;
            expect_close(one.states.at(name), close.states.at(name), name);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
