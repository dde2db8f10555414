// Endings: chains that kernels apply to sums in registers have the bits of the same chain on stored
// sums.
#include <algorithm>

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "engine_testing.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"
#include "sample.hpp"

namespace poptorch::emulator {
namespace {

struct ProductSize {
  int64_t m, n, k;
};

// Returns what an ending makes of row-major sums. Its scales are powers of two: with or without a
// fused multiply-add, each part is rounded once.
Floats ended(Floats sums, const Floats& scale, const Floats& shift, const Floats& added) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t column = i % scale.size();
    sums[i] = sums[i] * scale[column] + shift[column];
    sums[i] = std::clamp(sums[i] + added[i], -0.5f, 1.5f);
  }
  return sums;
}

Floats powers_of_two(int64_t count) {
  Floats x(count);
  for (int64_t i = 0; i < count; ++i) x[i] = i % 3 == 0 ? 0.5f : i % 3 == 1 ? -2.0f : 1.0f;
  return x;
}

TEST(Endings, AreThoseOfTheChainOnEverySet) {
  for (const KernelSet* set : host_kernel_sets()) {
    for (auto [m, n, k] :
         {ProductSize{1, 1, 1}, ProductSize{37, 45, 300}, ProductSize{100, 64, 20}}) {
      const Floats a = random_floats(m * k, 1), b = random_floats(k * n, 2);
      const Floats scale = powers_of_two(n), shift = random_floats(n, 3);
      const Floats added = random_floats(m * n, 4), bias = random_floats(n, 5);
      Floats packed(packed_floats(k, n)), plain(m * n), made(m * n), unused(m * n);
      set->gemm.pack({b.data(), n, 1}, k, n, 0, (n + kPanel - 1) / kPanel, packed.data(), k);
      auto run = [&](Floats& c, const Ending* ending) {
        set->gemm.packed(m, n, k, {a.data(), k, 1}, packed.data(), k, bias.data(), c.data(), n,
                         false, nullptr, Element::kFloat, ending, nullptr, false);
      };
      run(plain, nullptr);
      const Ending ending{.scale = scale.data(),
                          .shift = shift.data(),
                          .added = added.data(),
                          .low = -0.5f,
                          .high = 1.5f,
                          .to = made.data(),
                          .row_step = n};
      run(unused, &ending);
      ASSERT_EQ(made, ended(plain, scale, shift, added)) << set->name;
      const int64_t one_tap = 0, pixels = std::min<int64_t>(m, 8);
      const DepthwiseRun neighbours{.x = b.data(),
                                    .w = b.data(),
                                    .bias = nullptr,
                                    .from = &one_tap,
                                    .with = &one_tap,
                                    .taps = 1,
                                    .channels = n,
                                    .step = n};
      plain.resize(pixels * n);
      set->depthwise_pixels(neighbours, pixels, plain.data(), nullptr);
      set->depthwise_pixels(neighbours, pixels, unused.data(), &ending);
      const Floats expected = ended(plain, scale, shift, added);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), made.begin())) << set->name;
    }
  }
}

struct EndedOp {
  std::string state, op;  // op(x, w) → f32[batch,40,6,6]
  std::string type;
};
const EndedOp kEnded[] = {
    {"f32[40,24,1,1]", "conv(%x, %w) {dilation=[1, 1], padding=[0, 0], strides=[1, 1]}",
     "f32[1,24,6,6]"},
    {"f32[40,24,3,3]", "conv(%x, %w) {dilation=[1, 1], padding=[1, 1], strides=[1, 1]}",
     "f32[1,24,6,6]"},
    {"f32[40,400,1,1]", "conv(%x, %w) {dilation=[1, 1], padding=[0, 0], strides=[1, 1]}",
     "f32[1,400,6,6]"},
    {"f32[40,1,3,3]", "conv(%x, %w) {dilation=[1, 1], groups=40, padding=[1, 1], strides=[1, 1]}",
     "f32[1,40,6,6]"},
    {"f32[40,1,3,3]", "conv(%x, %w) {dilation=[1, 1], groups=40, padding=[1, 1], strides=[1, 1]}",
     "f32[3,40,6,6]"},
};

// Returns `text` with tensors of f32 as tensors of `dtype`.
std::string with_type(std::string text, const std::string& dtype) {
  return text.replace(text.find("f32"), 3, dtype);
}

TEST(Endings, AreFusedWithoutAnotherBit) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    for (const EndedOp& ended : kEnded) {
      const std::string state = with_type(ended.state, dtype), type = with_type(ended.type, dtype);
      const std::string batch(1, ended.type[4]);
      const std::string image = dtype + "[" + batch + ",40,6,6]";
      const std::string of_image = " : " + image + "\n";
      const std::string program_text =
          "state \"w\" : " + state + "\ngraph @main(%x: " + type + ", %z: " + image +
          ", %c: f32[40], %v: f32[40]) -> (" + image + ", " + image + ", " + image +
          ") {\n  %w = variable() {name=\"w\"} : " + state + "\n  %h = " + ended.op + of_image +
          "  %s, %t = batch_norm_factors(%c, %c, %c, %v) : f32[40], f32[40]\n"
          "  %scale = reshape(%s) {shape=[1, 40, 1, 1]} : f32[1,40,1,1]\n"
          "  %shift = reshape(%t) {shape=[1, 40, 1, 1]} : f32[1,40,1,1]\n"
          "  %n = scale_shift(%h, %scale, %shift)" +
          of_image + "  %m = add(%z, %n)" + of_image + "  %y = relu(%m)" + of_image +
          "  %g = " + ended.op + of_image + "  %u = clamp(%g) {high=0.3, low=-0.25}" + of_image +
          "  %i = " + ended.op + of_image + "  %j = scale_shift(%i, %scale, %shift)" + of_image +
          "  %k = exp(%j)" + of_image + "  return %y, %u, %k\n}\n";
      const program::Program program = lowered(program_text, {.device_iterations = 2});
      const Outcome apart = outcome(program, {.threads = 1, .fuse = false});
      EXPECT_EQ(outcome(program, {.threads = 1}), apart) << program_text;
      EXPECT_EQ(outcome(program, {.threads = 2}), apart) << program_text;
      const std::string text = Engine(program, ops::registry(), {.threads = 1}).text();
      EXPECT_NE(text.find("; %y:channels_last = [scale_shift add relu](_, "), std::string::npos);
      EXPECT_NE(text.find("; %u:channels_last = [clamp](_)"), std::string::npos) << text;
    }
  }
}

struct RoundedOp {
  std::string state, op, type, result;
};
const RoundedOp kRounded[] = {
    {"[24,40]", "matmul(%x, %w)", "[2,37,24]", "[2,37,40]"},
    {"[300,40]", "matmul(%x, %w)", "[30,300]", "[30,40]"},
    {"[40,24]", "linear(%x, %w)", "[5,24]", "[5,40]"},
    {"[40,24,1,1]", "conv(%x, %w) {dilation=[1, 1], padding=[0, 0], strides=[1, 1]}", "[2,24,6,6]",
     "[2,40,6,6]"},
    {"[40,24,3,3]", "conv(%x, %w) {dilation=[1, 1], padding=[1, 1], strides=[1, 1]}", "[1,24,6,6]",
     "[1,40,6,6]"},
    {"[72,24,1,1]", "conv(%x, %w) {dilation=[1, 1], padding=[0, 0], strides=[1, 1]}", "[3,24,7,7]",
     "[3,72,7,7]"},
    {"[40,1,3,3]", "conv(%x, %w) {dilation=[1, 1], groups=40, padding=[1, 1], strides=[1, 1]}",
     "[3,40,6,6]", "[3,40,6,6]"},
    {"[72,1,3,3]", "conv(%x, %w) {dilation=[1, 1], groups=72, padding=[1, 1], strides=[1, 1]}",
     "[2,72,7,7]", "[2,72,7,7]"},
};

// The sums of these products of halves are exact in any order, so that nothing differs but how
// their chains round.
TEST(Endings, RoundAtRandomAsTheChainDoes) {
  Sample sample(4);
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const RoundedOp& rounded : kRounded) {
      if (!sample.takes()) continue;
      const std::string wide = " : f32" + rounded.result + "\n";
      const std::string half = " : " + dtype + rounded.result + "\n";
      const std::string cast = ") {dtype=" + dtype + "}" + half;
      const std::string type = dtype + rounded.result;
      const std::string program_text =
          "state \"w\" : f32" + rounded.state + "\ngraph @main(%x0: f32" + rounded.type +
          ", %z0: f32" + rounded.result + ") -> (" + type + ", " + type + ", " + type +
          ") {\n  %w0 = variable() {name=\"w\"} : f32" + rounded.state +
          "\n  %x1 = exp(%x0) : f32" + rounded.type + "\n  %w1 = sign(%w0) : f32" + rounded.state +
          "\n  %x2 = cast(%x1) {dtype=" + dtype + "} : " + dtype + rounded.type +
          "\n  %w2 = cast(%w1) {dtype=" + dtype + "} : " + dtype + rounded.state +
          "\n  %x = cast(%x2) {dtype=f32} : f32" + rounded.type +
          "\n  %w = cast(%w2) {dtype=f32} : f32" + rounded.state + "\n  %z = cast(%z0" + cast +
          "  %a = " + rounded.op + wide + "  %y = stochastic_cast(%a" + cast +
          "  %b = " + rounded.op + wide + "  %c = stochastic_cast(%b" + cast +
          "  %d = cast(%c) {dtype=f32}" + wide + "  %e = cast(%z) {dtype=f32}" + wide +
          "  %f = add(%d, %e)" + wide + "  %g = stochastic_cast(%f" + cast + "  %u = relu(%g)" +
          half + "  %h = " + rounded.op + wide + "  %k = stochastic_cast(%h" + cast +
          "  %v = exp(%k)" + half + "  return %y, %u, %v\n}\n";
      const program::Program program = lowered(program_text, {.device_iterations = 2});
      const Outcome fused = outcome(program, {.threads = 1});
      EXPECT_EQ(outcome(program, {.threads = 2}), fused) << program_text;
      EXPECT_EQ(outcome(program, {.threads = 1, .fuse = false, .layouts = false}), fused)
          << program_text;
      const std::string text = Engine(program, ops::registry(), {.threads = 1}).text();
      EXPECT_NE(text.find(" = [stochastic_cast](_)"), std::string::npos) << text;
    }
  }
}

// The first result is rounded at random, the second at random and then limited, the third to
// nearest and limited.
TEST(Endings, OfNormsDoWhatTheirChainsDo) {
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const std::string shape : {"[3,40,7,9]", "[2,5,60,50]", "[4,72,5,5]", "[37,40]"}) {
      const std::string channels = "[" +
                                   std::string(shape == "[2,5,60,50]"  ? "5"
                                               : shape == "[4,72,5,5]" ? "72"
                                                                       : "40") +
                                   "]";
      const std::string wide = "f32" + shape, half = dtype + shape, each = "f32" + channels;
      const std::string rest = ", " + each + ", " + each + ", " + each + ", " + each + "\n";
      const std::string operands = ", %g, %b, %m, %v) {eps=1e-5, momentum=0.1} : ";
      const std::string cast = ") {dtype=" + dtype + "} : " + half + "\n";
      const std::string program_text =
          "graph @main(%x0: " + wide + ", %g: " + each + ", %b: " + each + ", %m: " + each +
          ", %v: " + each + ") -> (" + half + ", " + half + ", " + half + ") {\n  %x = cast(%x0" +
          cast + "  %w = cast(%x) {dtype=f32} : " + wide +
          "\n  %a, %a1, %a2, %a3, %a4 = batch_norm(%w" + operands + wide + rest +
          "  %y = stochastic_cast(%a" + cast + "  %c, %c1, %c2, %c3, %c4 = batch_norm(%w" +
          operands + wide + rest + "  %d = stochastic_cast(%c" + cast +
          "  %u = relu(%d) : " + half + "\n  %e, %e1, %e2, %e3, %e4 = batch_norm(%x" + operands +
          half + rest + "  %z = relu(%e) : " + half + "\n  return %y, %u, %z\n}\n";
      const program::Program program = lowered(program_text, {.device_iterations = 2});
      const Outcome fused = outcome(program, {.threads = 1});
      EXPECT_EQ(outcome(program, {.threads = 2}), fused) << program_text;
      EXPECT_EQ(outcome(program, {.threads = 1, .fuse = false}), fused) << program_text;
      const std::string text = Engine(program, ops::registry(), {.threads = 1}).text();
      EXPECT_NE(text.find("[stochastic_cast](_)"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
