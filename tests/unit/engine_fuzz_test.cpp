// Random programs: the engine agrees with the interpreter, bit for bit when both use reference
// kernels, and with itself whatever its options.
#include <cmath>
#include <random>
#include <sstream>

#include "fabric_testing.hpp"
#include "reference/interpreter.hpp"
#include "sample.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

// Writes random graphs over f32 values of a few shapes that broadcast with each other, with state
// that is read, viewed and written in between.
class Generator {
 public:
  explicit Generator(unsigned seed, bool reduces = false) : random_(seed), reduces_(reduces) {}

  std::string run(int ops) {
    std::ostringstream out;
    const char* const end = reduces_ ? " {group_size=1}\n" : "\n";
    for (const char* name : {"s0", "s1"}) out << "state \"" << name << "\" : f32[4,8]" << end;
    out << "state \"s2\" : f32[8]" << end;
    out << "graph @main(%x: f32[4,8], %y: f32[8], %z: f32[4,1]) -> (f32[4,8], f32[4,8]";
    std::ostringstream body;
    body << "  %s0 = variable() {name=\"s0\"} : f32[4,8]\n"
         << "  %s1 = variable() {name=\"s1\"} : f32[4,8]\n"
         << "  %s2 = variable() {name=\"s2\"} : f32[8]\n"
         << "  %half = constant() {value=dense<f32[]: 0.5>} : f32[]\n";
    values_ = {{"x", kFull},  {"y", kRow},  {"z", kColumn},   {"s0", kFull},
               {"s1", kFull}, {"s2", kRow}, {"half", kScalar}};
    for (int i = 0; i < ops; ++i) body << one_op();
    const Value a = pick(kFull), b = pick(kFull), c = pick(kRow);
    out << ", f32[8]) {\n" << body.str();
    out << "  return %" << a.name << ", %" << b.name << ", %" << c.name << "\n}\n";
    return out.str();
  }

 private:
  enum Shape { kFull, kRow, kColumn, kScalar };
  struct Value {
    std::string name;
    Shape shape;
  };
  static const char* text(Shape shape) {
    static const char* const kTexts[] = {"f32[4,8]", "f32[8]", "f32[4,1]", "f32[]"};
    return kTexts[shape];
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Value any() { return values_[static_cast<size_t>(below(static_cast<int>(values_.size())))]; }
  Value pick(Shape shape) {
    while (true) {
      const Value value = any();
      if (value.shape == shape) return value;
    }
  }

  static Shape together(Shape a, Shape b) {
    if (a == b) return a;
    if (a == kScalar) return b;
    if (b == kScalar) return a;
    return kFull;
  }

  std::string define(const std::string& text_of_op, Shape shape) {
    const std::string name = str("v", count_++);
    values_.push_back({name, shape});
    return str("  %", name, " = ", text_of_op, " : ", text(shape), "\n");
  }

  std::string one_op() {
    static const char* const kUnary[] = {"neg", "tanh", "sigmoid", "relu", "abs", "square"};
    static const char* const kBinary[] = {"add", "sub", "mul", "maximum", "minimum"};
    switch (below(reduces_ ? 18 : 15)) {
      case 0:
      case 1: {
        const Value a = any();
        return define(str(kUnary[below(6)], "(%", a.name, ")"), a.shape);
      }
      case 2:
      case 3:
      case 4:
      case 5: {
        const Value a = any(), b = any();
        // Kept small, so that nothing overflows.
        const std::string first = define(str(kBinary[below(5)], "(%", a.name, ", %", b.name, ")"),
                                         together(a.shape, b.shape));
        const Value made = values_.back();
        return first + define(str("tanh(%", made.name, ")"), made.shape);
      }
      case 6: {
        const std::string column = str("v", count_++), weight = str("v", count_++);
        const std::string outer =
            str("  %", column, " = reshape(%", pick(kRow).name, ") {shape=[8, 1]} : f32[8,1]\n",
                "  %", weight, " = mul(%", column, ", %", pick(kRow).name, ") : f32[8,8]\n");
        return outer +
               define(str("linear(%", pick(kFull).name, ", %", weight, ", %", pick(kRow).name, ")"),
                      kFull);
      }
      case 7:
        return define(str("sum(%", pick(kFull).name, ") {axes=[0]}"), kRow);
      case 8:
        return define(
            str(below(2) ? "mean" : "max", "(%", pick(kFull).name, ") {axes=[1], keepdims=true}"),
            kColumn);
      case 9: {
        const char* const state = below(2) ? "s0" : "s1";
        return below(2) ? str("  assign(%", state, ", %", pick(kFull).name, ")\n")
                        : str("  accumulate(%", state, ", %", pick(kFull).name, ") {scale=0.25}\n");
      }
      case 10:
        return str("  assign(%s2, %", pick(kRow).name, ")\n");
      case 12:
      case 13:
      case 14:
        return moved();
      case 15:
      case 16:
      case 17: {
        const Value a = any();
        return define(str("all_reduce(%", a.name, ") {op=\"mean\"}"), a.shape);
      }
      default: {
        const Value a = pick(kFull);
        const std::string name = str("v", count_++);
        return str("  %", name, " = reshape(%", a.name, ") {shape=[8, 4]} : f32[8,4]\n") +
               define(str("reshape(%", name, ") {shape=[4, 8]}"), kFull);
      }
    }
  }

  // Elements in another order, which chains read by strides.
  std::string moved() {
    const std::string name = str("v", count_++);
    const std::string from = str("  %", name, " = slice(%", pick(kFull).name, ")");
    const int row = below(4), column = below(8);
    switch (below(5)) {
      case 0:  // neighbouring elements
        return from +
               str(" {starts=[", row, ", 0], steps=[1, 1], stops=[", row + 1,
                   ", 8]} : f32[1,8]\n") +
               define(str("reshape(%", name, ") {shape=[8]}"), kRow);
      case 1:
        return from +
               str(" {starts=[0, ", column, "], steps=[1, 1], stops=[4, ", column + 1,
                   "]} : f32[4,1]\n") +
               define(str("add(%", name, ", %", pick(kColumn).name, ")"), kColumn);
      case 2:
        return from + " {starts=[0, 1], steps=[2, 2], stops=[4, 8]} : f32[2,4]\n" +
               define(str("reshape(%", name, ") {shape=[8]}"), kRow);
      case 3: {
        const std::string back = str("v", count_++);
        const std::string there = str("  %", name, " = transpose(%", pick(kFull).name,
                                      ") {permutation=[1, 0]} : f32[8,4]\n  %", back, " = tanh(%",
                                      name, ") : f32[8,4]\n");
        return there + define(str("transpose(%", back, ") {permutation=[1, 0]}"), kFull);
      }
      default: {
        const std::string row =
            str("  %", name, " = reshape(%", pick(kRow).name, ") {shape=[1, 8]} : f32[1,8]\n");
        return row + define(str("broadcast_to(%", name, ") {shape=[4, 8]}"), kFull);
      }
    }
  }

  std::mt19937 random_;
  const bool reduces_;  // over replicas, which have separate states
  std::vector<Value> values_;
  int count_ = 0;
};

ir::Literal literal(const ir::Type& type, const Bytes& bytes, int64_t part) {
  const auto size = static_cast<size_t>(type.bytes());
  const std::byte* begin = bytes.data() + static_cast<size_t>(part) * size;
  return ir::Literal(type, {begin, begin + size});
}

// Returns the result of `outcome`, computed by the interpreter.
Outcome interpreted(const ir::Module& module, const program::Program& program, int runs) {
  reference::Interpreter interpreter(module);
  uint32_t seed = 100;
  for (const program::State& state : program.states) {
    const auto count = static_cast<size_t>(state.slot.type.elements());
    interpreter.set_state(state.slot.name.text(),
                          literal(state.slot.type, bytes_of(numbers(count, seed++)), 0));
  }
  Outcome result;
  const std::vector<Bytes> inputs = made_up_inputs(program);
  for (int run = 0; run < runs; ++run) {
    result.outputs = std::vector<Bytes>(3);
    for (int64_t step = 0; step < program.micro_batches_per_run; ++step) {
      std::vector<ir::Literal> arguments;
      size_t next = 0;
      for (const program::Stream& stream : program.streams) {
        if (stream.host.to_device) {
          arguments.push_back(literal(stream.host.type, inputs[next++], step));
        }
      }
      const auto results = interpreter.run_one(arguments);
      for (size_t i = 0; i < results.size(); ++i) {
        const std::byte* data = results[i].data();
        result.outputs[i].insert(result.outputs[i].end(), data, data + results[i].type().bytes());
      }
    }
  }
  for (const program::State& state : program.states) {
    const ir::Literal value = interpreter.state(state.slot.name.text());
    result.states[state.slot.name.text()] = {value.data(), value.data() + value.type().bytes()};
  }
  return result;
}

void expect_near(const Bytes& a, const Bytes& b, const std::string& what) {
  const auto x = values_of<float>(a), y = values_of<float>(b);
  ASSERT_EQ(x.size(), y.size()) << what;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], 2e-4 * (1 + std::fabs(y[i]))) << what << " element " << i;
  }
}

TEST(EngineFuzz, AgreesWithTheInterpreterAndItself) {
  Sample sample;
  for (unsigned seed = 0; seed < 150; ++seed) {
    if (!sample.takes()) continue;
    const std::string text = Generator(seed).run(3 + static_cast<int>(seed % 40));
    SCOPED_TRACE(str("seed ", seed, "\n", text));
    const auto module = ir::parse(text, ops::registry());
    module->execution().device_iterations = 2;
    const program::Program program = lowering::lower(*module);
    const Outcome oracle = interpreted(*module, program, 2);
    ASSERT_EQ(outcome(program, {.threads = 1, .reference_only = true}), oracle);
    const Outcome plain = outcome(program, {.threads = 1, .fuse = false, .layouts = false});
    ASSERT_EQ(outcome(program, {.threads = 1}), plain);
    ASSERT_EQ(outcome(program, {.threads = 1, .least_joined = 1}), plain);
    ASSERT_EQ(outcome(program, {.threads = 2, .layouts = false}), plain);
    for (size_t i = 0; i < plain.outputs.size(); ++i) {
      expect_near(plain.outputs[i], oracle.outputs[i], str("output ", i));
    }
    for (const auto& [name, bytes] : plain.states) {
      expect_near(bytes, oracle.states.at(name), "state " + name);
    }
  }
}

TEST(EngineFuzz, CollectivesThatBeginAheadChangeNoValue) {
  int ahead = 0, programs = 0;
  Sample sample;
  for (unsigned seed = 0; seed < 100; ++seed) {
    if (!sample.takes()) continue;
    const std::string text = Generator(seed, true).run(3 + static_cast<int>(seed % 40));
    SCOPED_TRACE(str("seed ", seed, "\n", text));
    const program::Program program =
        lowered(text, {.device_iterations = 2, .replication_factor = 2});
    const EngineOptions in_place = {.threads = 1, .begin_ahead = false};
    const Outcome plain = outcome(program, in_place);
    ASSERT_EQ(outcome(program, {.threads = 1, .begin_ahead = true}), plain);
    ASSERT_EQ(outcome(program, {.threads = 2, .begin_ahead = true}), plain);
    ahead += Engine(program, ops::registry(), {.begin_ahead = true}).text() !=
             Engine(program, ops::registry(), in_place).text();
    if (programs++ % 4 != 0) continue;
    for (Joining way : {Joining::kSent, Joining::kLent}) expect_same_bits(program, {1}, 2, way);
  }
  EXPECT_GT(3 * ahead, programs);
}

}  // namespace
}  // namespace poptorch::emulator
