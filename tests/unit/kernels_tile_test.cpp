// Tile programs: values close to those in float64, bit-identical results wherever a block begins,
// broadcasting, rounding points, and updates in place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "emulator/kernels/base/tile_program.hpp"
#include "tile_testing.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;
using ir::Type;

TEST(TileProgram, KeepsNanAndInfinity) {
  for (const char* name : {"exp", "log", "tanh", "erf", "sin", "sigmoid", "relu", "gelu"}) {
    std::vector<float> x = {NAN, NAN, NAN}, y(3);
    TileProgramBuilder builder({3});
    const int r = builder.input({DType::kF32, {3}});
    builder.output(builder.op(op(name), {}, {r}, {DType::kF32})[0]);
    run(*builder.finish(), {bytes(x), bytes(y)});
    EXPECT_TRUE(std::isnan(y[0])) << name;
  }
  std::vector<float> x = {INFINITY, -INFINITY, 0}, e(3), l(3);
  TileProgramBuilder builder({3});
  const int r = builder.input({DType::kF32, {3}});
  builder.output(builder.op(op("exp"), {}, {r}, {DType::kF32})[0]);
  builder.output(builder.op(op("log"), {}, {r}, {DType::kF32})[0]);
  run(*builder.finish(), {bytes(x), bytes(e), bytes(l)});
  EXPECT_EQ(e, (std::vector<float>{INFINITY, 0, 1}));
  EXPECT_EQ(l[0], INFINITY);
  EXPECT_TRUE(std::isnan(l[1]));
  EXPECT_EQ(l[2], -INFINITY);
}

TEST(TileProgram, BroadcastsAndRunsOnBlocksOfRows) {
  const int64_t rows = 37, cols = 53;
  std::vector<float> x = numbers(rows * cols, -2, 2), bias = numbers(cols, -1, 1),
                     scale = numbers(rows, -1, 1), y(rows * cols), blocks(rows * cols);
  std::vector<float> shift = {0.25f};
  TileProgramBuilder builder({rows, cols});
  const int a = builder.input({DType::kF32, {rows, cols}});
  const int b = builder.input({DType::kF32, {cols}});
  const int s = builder.input({DType::kF32, {rows, 1}});
  const int k = builder.input({DType::kF32, {}});
  const int sum = builder.op(op("add"), {}, {a, b}, {DType::kF32})[0];
  const int product = builder.op(op("mul"), {}, {sum, s}, {DType::kF32})[0];
  builder.output(builder.op(op("sub"), {}, {product, k}, {DType::kF32})[0]);
  auto program = builder.finish();
  run(*program, {bytes(x), bytes(bias), bytes(scale), bytes(shift), bytes(y)});
  for (int64_t i = 0; i < rows * cols; ++i) {
    ASSERT_EQ(y[i], (x[i] + bias[i % cols]) * scale[i / cols] - shift[0]);
  }
  // Blocks of 8 x 10, input 0 from the producer's scratch.
  for (int64_t r = 0; r < rows; r += 8) {
    for (int64_t c = 0; c < cols; c += 10) {
      const int64_t h = std::min<int64_t>(8, rows - r), w = std::min<int64_t>(10, cols - c);
      std::vector<float> held(8 * 16);
      for (int64_t i = 0; i < h; ++i) std::copy_n(&x[(r + i) * cols + c], w, &held[i * 16]);
      run(*program, {nullptr, bytes(bias), bytes(scale), bytes(shift), bytes(blocks)},
          {.first = r * cols + c,
           .rows = h,
           .row_step = cols,
           .cols = w,
           .source = bytes(held),
           .source_step = 16});
    }
  }
  EXPECT_EQ(y, blocks);
}

TEST(TileProgram, RoundsToHalfAfterEveryOpOfThatType) {
  const int64_t n = 1001;
  std::vector<uint16_t> x(n), y(n);
  for (int64_t i = 0; i < n; ++i) x[i] = ir::to_half_bits(0.001 * i - 0.3);
  TileProgramBuilder builder({n});
  const int r = builder.input({DType::kF16, {n}});
  const int third = builder.constant(DType::kF16, 1.0 / 3);
  const int sum = builder.op(op("add"), {}, {r, third}, {DType::kF16})[0];
  builder.output(builder.op(op("mul"), {}, {sum, sum}, {DType::kF16})[0]);
  run(*builder.finish(), {bytes(x), bytes(y)});
  auto half = [](double v) { return ir::from_half_bits(ir::to_half_bits(v)); };
  for (int64_t i = 0; i < n; ++i) {
    const double s = half(ir::from_half_bits(x[i]) + half(1.0 / 3));
    ASSERT_EQ(y[i], ir::to_half_bits(s * s)) << i;
  }
}

TEST(TileProgram, StoresASumBeforeAndAfterItsRounding) {
  constexpr int64_t kCount = 700;
  std::vector<float> x = numbers(kCount, -2, 2), wide(kCount);
  std::vector<uint16_t> rounded(kCount);
  TileProgramBuilder builder({kCount});
  const int a = builder.input({DType::kF32, {kCount}});
  const int sum = builder.op(op("add"), {}, {a, a}, {DType::kF32})[0];
  builder.output(sum);
  ir::Attrs attrs;
  attrs.set("dtype", DType::kF16);
  builder.output(builder.op(op("cast"), attrs, {sum}, {DType::kF16})[0]);
  run(*builder.finish(), {bytes(x), bytes(wide), bytes(rounded)});
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(wide[i], x[i] + x[i]);
    ASSERT_EQ(rounded[i], ir::to_half_bits(x[i] + x[i]));
  }
}

TEST(TileProgram, ComparesSelectsAndCastsExactly) {
  const int64_t n = 700;
  std::vector<int32_t> a(n), b(n), larger(n);
  std::vector<uint8_t> less(n);
  std::vector<float> wide(n);
  for (int64_t i = 0; i < n; ++i) a[i] = static_cast<int32_t>(i * 2654435761u), b[i] = ~a[i] / 3;
  TileProgramBuilder builder({n});
  const int x = builder.input({DType::kI32, {n}}), z = builder.input({DType::kI32, {n}});
  const int lt = builder.op(op("lt"), {}, {x, z}, {DType::kBool})[0];
  const int pick = builder.op(op("select"), {}, {lt, z, x}, {DType::kI32})[0];
  builder.output(pick);
  builder.output(lt);
  builder.output(builder.op(op("cast"), {{"dtype", DType::kF32}}, {pick}, {DType::kF32})[0]);
  run(*builder.finish(), {bytes(a), bytes(b), bytes(larger), bytes(less), bytes(wide)});
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(larger[i], std::max(a[i], b[i]));
    ASSERT_EQ(less[i], a[i] < b[i]);
    ASSERT_EQ(wide[i], static_cast<float>(std::max(a[i], b[i])));
  }
}

TEST(TileProgram, DividesIntegersByZeroWithoutDying) {
  std::vector<int32_t> a = {7, -7, INT32_MIN, 5}, b = {2, 2, -1, 0}, q(4), r(4);
  TileProgramBuilder builder({4});
  const int x = builder.input({DType::kI32, {4}}), z = builder.input({DType::kI32, {4}});
  builder.output(builder.op(op("floor_div"), {}, {x, z}, {DType::kI32})[0]);
  builder.output(builder.op(op("remainder"), {}, {x, z}, {DType::kI32})[0]);
  run(*builder.finish(), {bytes(a), bytes(b), bytes(q), bytes(r)});
  EXPECT_EQ(q, (std::vector<int32_t>{3, -4, INT32_MIN, 0}));
  EXPECT_EQ(r, (std::vector<int32_t>{1, 1, 0, 0}));
}

TEST(TileProgram, UpdatesInPlaceAfterALaterReader) {
  // y is written over x, and x is read again by a later op: the program must not see the new x.
  const int64_t n = 600;
  std::vector<float> x = numbers(n, -1, 1), old = x, z(n);
  TileProgramBuilder builder({n});
  const int r = builder.input({DType::kF32, {n}});
  const int y = builder.op(op("exp"), {}, {r}, {DType::kF32})[0];
  builder.output(y);
  builder.output(builder.op(op("sub"), {}, {r, y}, {DType::kF32})[0]);
  auto program = builder.finish();
  run(*program, {bytes(x), bytes(x), bytes(z)});
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_NEAR(x[i], std::exp(old[i]), 1e-6);
    ASSERT_EQ(z[i], old[i] - x[i]);
  }
}

TEST(TileProgram, AdamKernelMatchesTheFormulaInDouble) {
  const int64_t n = 1500;
  std::vector<float> w = numbers(n, -1, 1, 1), m = numbers(n, -1, 1, 2), v = numbers(n, 0, 1, 3),
                     g = numbers(n, -1, 1, 4), w0 = w, m0 = m, v0 = v;
  std::vector<double> hyper = {3, 1e-3, 0.9, 0.999, 1e-8, 0.01};
  const Type t{DType::kF32, {n}}, d{DType::kF64, {}};
  KernelRequest request;
  request.op = &op("adam_update");
  request.attrs = {{"decoupled", true}};
  request.inputs = {t, t, t, t, d, d, d, d, d, d};
  request.input_layouts.resize(10);
  auto kernel = all_kernels().find("adam_update")->bind(request);
  ASSERT_TRUE(kernel);
  std::vector<std::byte*> buffers = {bytes(w), bytes(m), bytes(v), bytes(g)};
  for (double& h : hyper) buffers.push_back(reinterpret_cast<std::byte*>(&h));
  std::vector<std::byte> scratch(kernel->scratch_bytes());
  KernelArgs args{
      .buffers = buffers.data(), .scratch = scratch.data(), .workspace = nullptr, .random = {}};
  for (int task = 0; task < kernel->tasks(0); ++task) kernel->run(args, 0, task);
  for (int64_t i = 0; i < n; ++i) {
    const double m1 = m0[i] + 0.1 * (g[i] - m0[i]), v1 = 0.999 * v0[i] + 0.001 * g[i] * g[i];
    const double root = std::sqrt(v1) / std::sqrt(1 - std::pow(0.999, 3)) + 1e-8;
    const double step = 1e-3 / (1 - std::pow(0.9, 3)) * m1 / root;
    ASSERT_NEAR(m[i], m1, 1e-6);
    ASSERT_NEAR(v[i], v1, 1e-6);
    ASSERT_NEAR(w[i], w0[i] * (1 - 1e-5) - step, 1e-6);
  }
}

// Adam as PopXL writes it: copies and rounding points are omitted or merged, without a change of
// the results.
TEST(TileProgram, JoinsAveragesAndRatiosWithoutAnotherBit) {
  constexpr int64_t n = 1003;
  std::vector<float> g = numbers(n, -1, 1, 3), v = numbers(n, 0, 1, 4), w = numbers(n, -1, 1, 5);
  std::vector<uint16_t> m(n);
  for (int64_t i = 0; i < n; ++i) m[i] = ir::to_half_bits(g[n - 1 - i] * 0.3);
  auto half = [](float x) { return static_cast<float>(ir::from_half_bits(ir::to_half_bits(x))); };
  const float keep = half(0.9f), fresh = half(0.1f);
  std::vector<float> want_m(n), want_v(n), want_w(n);
  for (int64_t i = 0; i < n; ++i) {
    const float old = static_cast<float>(ir::from_half_bits(m[i]));
    want_m[i] = half(keep * old + fresh * half(g[i]));
    want_v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    want_w[i] = w[i] + -0.01f * half(want_m[i] / (std::sqrt(want_v[i]) + 1e-5f));
  }

  TileProgramBuilder b({n});
  auto emit = [&](const char* name, std::vector<int> operands, DType result, ir::Attrs attrs = {}) {
    return b.op(op(name), attrs, operands, {result})[0];
  };
  const DType f16 = DType::kF16, f32 = DType::kF32;
  const int gr = b.input({f32, {n}}), mr = b.input({f16, {n}}), vr = b.input({f32, {n}});
  const int wr = b.input({f32, {n}}), kept = b.constant(f32, keep), taken = b.constant(f32, fresh);
  const int decay = b.constant(f32, 0.999f), rest = b.constant(f32, 0.001f);
  const int sample = emit("cast", {emit("cast", {gr}, f16)}, f32);
  const int old = emit("mul", {kept, emit("cast", {mr}, f32)}, f32);
  const int sum = emit("add", {old, emit("mul", {taken, sample}, f32)}, f32);
  const int first = emit("assign", {mr, emit("cast", {sum}, f16)}, f16);
  const int square = emit("mul", {emit("mul", {rest, gr}, f32), gr}, f32);
  const int both = emit("add", {emit("mul", {decay, vr}, f32), square}, f32);
  const int second = emit("assign", {vr, both}, f32);
  const int root = emit("add", {emit("sqrt", {second}, f32), b.constant(f32, 1e-5f)}, f32);
  const int step = emit("cast", {emit("div", {emit("cast", {first}, f32), root}, f32)}, f16);
  ir::Attrs scale;
  scale.set("scale", -0.01);
  const int weight = emit("accumulate", {wr, step}, f32, scale);
  for (int reg : {first, second, weight}) b.output(reg);
  auto program = b.finish();
  const std::string text = program->text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4 + 1 + 3) << text;
  run(*program, {bytes(g), bytes(m), bytes(v), bytes(w), bytes(m), bytes(v), bytes(w)});
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(static_cast<float>(ir::from_half_bits(m[i])), want_m[i]) << i;
    ASSERT_EQ(v[i], want_v[i]) << i;
    ASSERT_EQ(w[i], want_w[i]) << i;
  }
}

TEST(TileProgram, SwapsTwoTensorsInPlace) {
  std::vector<float> x = {1, 2, 3}, y = {4, 5, 6};
  TileProgramBuilder b({3});
  const int xr = b.input({DType::kF32, {3}}), yr = b.input({DType::kF32, {3}});
  const int to_x = b.op(op("assign"), {}, {xr, yr}, {DType::kF32})[0];
  b.output(to_x);
  b.output(b.op(op("assign"), {}, {yr, xr}, {DType::kF32})[0]);
  run(*b.finish(), {bytes(x), bytes(y), bytes(x), bytes(y)});
  EXPECT_EQ(x, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace poptorch::emulator
