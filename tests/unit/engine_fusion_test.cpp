// Element-wise chains: ops that fuse, ops that must not, and results that do not change.
#include <regex>

#include "emulator/run/state_store.hpp"
#include "engine_testing.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

struct FusionCase {
  const char* title;
  const char* text;
  const char* bound;  // a line that must stand in Engine::text(), or nullptr
};

const FusionCase kCases[] = {
    {"a chain runs as one step", R"(
graph @main(%x: f32[4,8], %b: f32[8]) -> (f32[4,8]) {
  %a = add(%x, %b) : f32[4,8]
  %t = tanh(%a) : f32[4,8]
  %y = mul(%t, %x) : f32[4,8]
  return %y
})",
     "%y = [add tanh mul](%x, %b)"},
    {"a transfer ends a chain", R"(
graph @main(%x: f32[4,8]) -> (f32[4,8], f32[4,8]) {
  %a = exp(%x) : f32[4,8]
  %y = neg(%a) : f32[4,8]
  return %a, %y
})",
     "%y = [neg](%a)"},
    {"a reader between write and use splits the chain", R"(
state "w" : f32[8]
graph @main(%x: f32[8]) -> (f32[8], f32[8]) {
  %w = variable() {name="w"} : f32[8]
  %a = add(%w, %x) : f32[8]
  assign(%w, %a)
  %b = add(%w, %x) : f32[8]
  accumulate(%w, %b) {scale=0.5}
  return %a, %b
})",
     nullptr},
    {"a view is an alias", R"(
graph @main(%x: f32[4,8]) -> (f32[8,4]) {
  %a = relu(%x) : f32[4,8]
  %v = reshape(%a) {shape=[8, 4]} : f32[8,4]
  %y = exp(%v) : f32[8,4]
  return %y
})",
     "%y = [exp](%v)"},
    {"a view of a state that changes before its use is a copy", R"(
state "w" : f32[4,2]
graph @main(%x: f32[4,2]) -> (f32[8]) {
  %w = variable() {name="w"} : f32[4,2]
  %old = reshape(%w) {shape=[8]} : f32[8]
  assign(%w, %x)
  %y = exp(%old) : f32[8]
  return %y
})",
     "%old = copy(%w)"},
    {"a slice of neighbouring elements is a part of the memory", R"(
graph @main(%x: f32[4,8], %m: f32[8,8]) -> (f32[2,8]) {
  %a = relu(%x) : f32[4,8]
  %s = slice(%a) {starts=[1, 0], steps=[1, 1], stops=[3, 8]} : f32[2,8]
  %y = matmul(%s, %m) : f32[2,8]
  return %y
})",
     "%y = matmul(%s, %m)"},
    {"chains read a slice and a broadcast through strides", R"(
graph @main(%x: f32[4,64], %b: f32[4,1]) -> (f32[4,32]) {
  %first = slice(%x) {starts=[0, 0], steps=[1, 1], stops=[4, 32]} : f32[4,32]
  %second = slice(%x) {starts=[0, 32], steps=[1, 1], stops=[4, 64]} : f32[4,32]
  %c = broadcast_to(%b) {shape=[4, 32]} : f32[4,32]
  %t = tanh(%first) : f32[4,32]
  %s = sigmoid(%second) : f32[4,32]
  %p = mul(%t, %s) : f32[4,32]
  %y = add(%p, %c) : f32[4,32]
  return %y
})",
     "%y = [tanh sigmoid mul add](%first, %second, %c)"},
    {"a concatenation reads slices through strides", R"(
graph @main(%x: f32[4,64]) -> (f32[4,64], f32[64,4]) {
  %last = slice(%x) {starts=[0, 32], steps=[1, 1], stops=[4, 64]} : f32[4,32]
  %first = slice(%x) {starts=[0, 0], steps=[1, 1], stops=[4, 32]} : f32[4,32]
  %n = neg(%first) : f32[4,32]
  %y = concat(%last, %n) {axis=1} : f32[4,64]
  %p = transpose(%last) {permutation=[1, 0]} : f32[32,4]
  %q = transpose(%first) {permutation=[1, 0]} : f32[32,4]
  %z = concat(%p, %q) {axis=0} : f32[64,4]
  return %y, %z
})",
     "value %last : f32[4,32] at storage(0, 128) by [64, 1]"},
    {"a product reads a copy of a slice", R"(
graph @main(%x: f32[4,64], %m: f32[32,8]) -> (f32[4,8]) {
  %s = slice(%x) {starts=[0, 32], steps=[1, 1], stops=[4, 64]} : f32[4,32]
  %y = matmul(%s, %m) : f32[4,8]
  return %y
})",
     "%s = slice(%x)"},
    {"a slice of a state that changes before its use is a copy", R"(
state "w" : f32[4,32]
graph @main(%x: f32[4,32]) -> (f32[1,32]) {
  %w = variable() {name="w"} : f32[4,32]
  %old = slice(%w) {starts=[1, 0], steps=[1, 1], stops=[2, 32]} : f32[1,32]
  assign(%w, %x)
  %y = exp(%old) : f32[1,32]
  return %y
})",
     "%old = slice(%w)"},
    {"a result does not overwrite what the chain reads through strides", R"(
graph @main(%x: f32[32,32]) -> (f32[32,32]) {
  %a = exp(%x) : f32[32,32]
  %t = transpose(%a) {permutation=[1, 0]} : f32[32,32]
  %y = add(%a, %t) : f32[32,32]
  return %y
})",
     nullptr},
    {"a state that only grows is written in place", R"(
state "w" : f32[4,32]
graph @main(%x: f32[2,32], %i: i32[2]) -> (f32[4,32]) {
  %w = variable() {name="w"} : f32[4,32]
  %new = index_put(%w, %x, %i) : f32[4,32]
  %y = exp(%new) : f32[4,32]
  assign(%w, %new)
  return %y
})",
     "value %new : f32[4,32] at storage(0)"},
    {"a state whose old value is read later is not", R"(
state "w" : f32[4,32]
graph @main(%x: f32[2,32], %i: i32[2]) -> (f32[4,32]) {
  %w = variable() {name="w"} : f32[4,32]
  %new = index_put(%w, %x, %i) : f32[4,32]
  %y = sub(%new, %w) : f32[4,32]
  assign(%w, %new)
  return %y
})",
     "assign](%w, %new)"},
    {"a state that changes again before its value is read is not", R"(
state "w" : f32[4,32]
graph @main(%x: f32[2,32], %i: i32[2]) -> (f32[4,32]) {
  %w = variable() {name="w"} : f32[4,32]
  %new = index_put(%w, %x, %i) : f32[4,32]
  assign(%w, %new)
  %twice = add(%new, %new) : f32[4,32]
  assign(%w, %twice)
  %y = neg(%new) : f32[4,32]
  return %y
})",
     nullptr},
    {"a broadcast reader of a chain waits for its end", R"(
graph @main(%x: f32[8], %z: f32[4,8]) -> (f32[4,8], f32[8]) {
  %a = exp(%x) : f32[8]
  %y = add(%z, %a) : f32[4,8]
  %b = neg(%a) : f32[8]
  return %y, %b
})",
     nullptr},
};

TEST(EngineFusion, KeepsValues) {
  for (const FusionCase& c : kCases) {
    const program::Program program = lowered(c.text, {.device_iterations = 3});
    const Outcome plain = outcome(program, {.threads = 1, .fuse = false, .layouts = false});
    EXPECT_EQ(outcome(program, {.threads = 1}), plain) << c.title;
    EXPECT_EQ(outcome(program, {.threads = 2}), plain) << c.title;
    Engine engine(program, ops::registry(), {.threads = 1});
    if (c.bound) {
      EXPECT_NE(engine.text().find(c.bound), std::string::npos) << c.title << "\n" << engine.text();
    }
  }
}

TEST(EngineFusion, MovesImagesInTheirLayout) {
  // The pools make and ask for channels-last, and change no value.
  const program::Program program = lowered(R"(
graph @main(%x: f32[2,5,6,4], %i: i32[3]) -> (f32[2,10,6,4], f32[2,5,6,12], f32[2,3,4,3], f32[2,5,6,4], f32[3,6,8,6], f32[2,5,8,6], f32[2,10,6,4], f32[2,3,6,4], f32[2,5,3,4]) {
  %p = max_pool(%x) {dilation=[1, 1], kernel=[1, 1], padding=[0, 0], strides=[1, 1]} : f32[2,5,6,4]
  %c = concat(%p, %p) {axis=1} : f32[2,10,6,4]
  %d = concat(%p, %x, %p) {axis=3} : f32[2,5,6,12]
  %s = slice(%c) {starts=[0, 1, 2, 0], steps=[1, 3, 1, 1], stops=[2, 9, 6, 3]} : f32[2,3,4,3]
  %r = reverse(%p) {axes=[1, 3]} : f32[2,5,6,4]
  %a = pad(%p) {high=[1, 0, 2, 0], low=[0, 1, 0, 2], value=0.5} : f32[3,6,8,6]
  %b = pad(%p) {high=[0, 0, 1, 1], low=[0, 0, 1, 1], mode="reflect"} : f32[2,5,8,6]
  %n = insert_slice(%c, %s) {starts=[0, 1, 2, 0], steps=[1, 3, 1, 1], stops=[2, 9, 6, 3]} : f32[2,10,6,4]
  %k = index_select(%p, %i) {axis=1} : f32[2,3,6,4]
  %l = index_select(%p, %i) {axis=2} : f32[2,5,3,4]
  return %c, %d, %s, %r, %a, %b, %n, %k, %l
})");
  const Outcome plain = outcome(program, {.threads = 1, .layouts = false});
  EXPECT_EQ(outcome(program, {.threads = 1}), plain);
  EXPECT_EQ(outcome(program, {.threads = 2}), plain);
  const std::string text = Engine(program, ops::registry(), {.threads = 1}).text();
  for (const char* moved : {"%c", "%d", "%s", "%r", "%a", "%b", "%n", "%k", "%l"}) {
    EXPECT_NE(text.find(std::string(moved) + ":channels_last = "), std::string::npos) << moved;
  }
}

// Norms and softmax as users write them, on `rows` rows of `width` elements in `dtype`.
std::string written_out(const std::string& dtype, int rows, int width) {
  std::string text = R"(
graph @main(%x: f32[2,R,W], %g: f32[W]) -> (f32[2,R,W], f32[2,R], f32[2,R,W], f32[W]) {
  %h = cast(%x) {dtype=D} : D[2,R,W]
  %s = square(%h) : D[2,R,W]
  %m = mean(%s) {axes=[2], keepdims=true} : D[2,R,1]
  %r = rsqrt(%m) : D[2,R,1]
  %n = mul(%h, %r) : D[2,R,W]
  %t = max(%n) {axes=[2]} : D[2,R]
  %u = reshape(%t) {shape=[2, R, 1]} : D[2,R,1]
  %v = broadcast_to(%u) {shape=[2, R, W]} : D[2,R,W]
  %d = sub(%n, %v) : D[2,R,W]
  %e = exp(%d) : D[2,R,W]
  %z = sum(%e) {axes=[2], keepdims=true} : D[2,R,1]
  %p = div(%e, %z) : D[2,R,W]
  %o = cast(%p) {dtype=f32} : f32[2,R,W]
  %y = mul(%o, %g) : f32[2,R,W]
  %q = cast(%t) {dtype=f32} : f32[2,R]
  %w = cast(%n) {dtype=f32} : f32[2,R,W]
  %k = sum(%o) {axes=[0, 1]} : f32[W]
  return %y, %q, %w, %k
})";
  for (const auto& [from, to] : {std::pair{"D", dtype}, std::pair{"R", std::to_string(rows)},
                                 std::pair{"W", std::to_string(width)}}) {
    text = std::regex_replace(text, std::regex(support::str("\\b", from, "\\b")), to);
  }
  return text;
}

TEST(EngineFusion, JoinsRowsToTheSameBits) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const auto& [rows, width] :
         {std::pair{9, 5}, std::pair{7, 33}, std::pair{50, 700}, std::pair{9, 5000}}) {
      const program::Program program = lowered(written_out(dtype, rows, width));
      const Outcome plain = outcome(program, {.threads = 1, .fuse = false});
      EXPECT_EQ(outcome(program, {.threads = 1, .least_joined = 1}), plain) << dtype << rows;
      EXPECT_EQ(outcome(program, {.threads = 2, .least_joined = 1}), plain) << dtype << rows;
      const std::string text =
          Engine(program, ops::registry(), {.threads = 1, .least_joined = 1}).text();
      EXPECT_NE(text.find(" then "), std::string::npos) << text;
      EXPECT_NE(text.find("held=true"), std::string::npos) << text;
    }
  }
}

// Chains whose results are summed or scanned as a whole; one of them is also a result.
std::string taken_by_runs(const std::string& dtype, int rows, int width) {
  std::string text = R"(
graph @main(%x: f32[R,W], %g: f32[W]) -> (f32[], f32[R], f32[R,W], f32[], f32[R,W]) {
  %s = square(%x) : f32[R,W]
  %a = sum(%s) {axes=[0, 1]} : f32[]
  %h = cast(%x) {dtype=D} : D[R,W]
  %e = exp(%h) : D[R,W]
  %b = max(%e) {axes=[1]} : D[R]
  %p = mul(%x, %g) : f32[R,W]
  %c = cumsum(%p) {axis=0} : f32[R,W]
  %n = neg(%c) : f32[R,W]
  %k = mean(%n) {axes=[0, 1]} : f32[]
  %t = cast(%b) {dtype=f32} : f32[R]
  return %a, %t, %c, %k, %n
})";
  for (const auto& [from, to] : {std::pair{"D", dtype}, std::pair{"R", std::to_string(rows)},
                                 std::pair{"W", std::to_string(width)}}) {
    text = std::regex_replace(text, std::regex(support::str("\\b", from, "\\b")), to);
  }
  return text;
}

TEST(EngineFusion, TakesRunsToTheSameBits) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const auto& [rows, width] :
         {std::pair{1, 300}, std::pair{3, 20000}, std::pair{70, 257}, std::pair{300, 1100}}) {
      const program::Program program = lowered(taken_by_runs(dtype, rows, width));
      const Outcome plain = outcome(program, {.threads = 1, .fuse = false});
      for (int threads : {1, 2}) {
        const EngineOptions options{.threads = threads, .least_joined = 1};
        EXPECT_EQ(outcome(program, options), plain) << dtype << rows << " " << width;
      }
      const std::string text =
          Engine(program, ops::registry(), {.threads = 1, .least_joined = 1}).text();
      EXPECT_NE(text.find("joined_rows=1 "), std::string::npos) << text;
    }
  }
}

TEST(EngineFusion, ComputesWhatTheTextSays) {
  const program::Program program = lowered(R"(
state "w" : f32[3]
graph @main(%x: f32[3]) -> (f32[3]) {
  %w = variable() {name="w"} : f32[3]
  %y = mul(%x, %w) : f32[3]
  accumulate(%w, %x) {scale=2.0}
  return %y
})",
                                           {.device_iterations = 2});
  Engine engine(program, ops::registry(), {.threads = 1});
  engine.state().write("w", bytes_of(std::vector<float>{1, 2, 3}).data());
  const auto outputs = run_once(engine, {bytes_of(std::vector<float>{1, 2, 3, 10, 20, 30})});
  EXPECT_EQ(values_of<float>(outputs[0]), (std::vector<float>{1, 4, 9, 30, 120, 270}));
  Bytes w(12);
  engine.state().read("w", w.data());
  EXPECT_EQ(values_of<float>(w), (std::vector<float>{23, 46, 69}));
}

TEST(EngineState, RefusesUnknownNames) {
  const program::Program program =
      lowered("state \"weight\" : f32[3]\ngraph @main(%x: f32[3]) -> (f32[3]) {\n  return %x\n}\n");
  Engine engine(program, ops::registry(), {.threads = 1});
  Bytes data(12);
  try {
    engine.state().read("wieght", data.data());
    ADD_FAILURE();
  } catch (const support::UserError& error) {
    EXPECT_STREQ(error.what(), "[state] there is no state 'wieght'. Did you mean 'weight'?");
  }
}

}  // namespace
}  // namespace poptorch::emulator
