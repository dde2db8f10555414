// Executables in files: a loaded executable continues bit-identically; state is mapped if possible;
// files whose parts do not fit are refused.
#include "session/executable_file.hpp"

#include "compile/pipeline.hpp"
#include "emulator/run/state_store.hpp"
#include "engine_testing.hpp"
#include "error_text.hpp"
#include "scratch.hpp"
#include "storage/about.hpp"
#include "storage/safetensors.hpp"
#include "support/build_id.hpp"
#include "support/error.hpp"

namespace poptorch::session {
namespace {

using emulator::Bytes;
using support::UserError;

// Weights whose size is a multiple of a cache line and weights whose size is not, a buffer that
// each step writes, and random numbers.
constexpr const char* kNet = R"(
state "w" : f32[16,4]
state "b" : f32[16]
state "v" : f32[3,16]
state "seen" : f32[3] {kind="buffer"}
graph @main(%x: f32[2,4], %t: i32[2]) -> (f32[2,3], f32[]) {
  %w = variable() {name="w"} : f32[16,4]
  %b = variable() {name="b"} : f32[16]
  %v = variable() {name="v"} : f32[3,16]
  %seen = variable() {name="seen"} : f32[3]
  %h = linear(%x, %w, %b) : f32[2,16]
  %d, %mask = dropout(%h) {p=0.5} : f32[2,16], bool[2,16]
  %y = linear(%d, %v, _) : f32[2,3]
  %m = mean(%y) {axes=[0]} : f32[3]
  %now = add(%seen, %m) : f32[3]
  assign(%seen, %now)
  %l, %lp = softmax_cross_entropy(%y, %t) {reduction="mean"} : f32[], f32[2,3]
  %loss = identity_loss(%l) {reduction="none"} : f32[]
  return %y, %loss
}
)";

ir::Execution training(const std::string& optimiser) {
  ir::Execution execution{.training = true, .device_iterations = 2};
  ir::OptimiserGroup group{.parameters = {"w", "b", "v"}};
  if (optimiser == "sgd") {
    group.values = {{"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"dampening", 0.0}};
  } else {
    group.values = {
        {"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-3}, {"weight_decay", 0.01}};
  }
  group.variable = {"lr"};
  execution.optimiser.emplace();
  execution.optimiser->kind = optimiser;
  execution.optimiser->groups = {group};
  return execution;
}

std::unique_ptr<Executable> with_weights(const std::string& text, ir::Execution execution) {
  auto made = compile(emulator::parsed(text, std::move(execution)), {.threads = 1});
  uint32_t seed = 7;
  for (const ir::StateSlot& slot : made->states()) {
    if (slot.kind != "parameter") continue;
    const auto values =
        emulator::numbers(static_cast<size_t>(made->state_type(slot).elements()), seed++);
    made->write_state(slot.name.text(), emulator::bytes_of(values).data());
  }
  return made;
}

emulator::Outcome state_of(const Executable& model) {
  emulator::Outcome result;
  for (const ir::StateSlot& slot : model.states()) {
    Bytes& bytes = result.states[slot.name.text()];
    bytes.resize(static_cast<size_t>(model.state_type(slot).bytes()));
    model.read_state(slot.name.text(), bytes.data());
  }
  return result;
}

// Returns the outputs of the last of `runs` runs, and the state after it.
emulator::Outcome after(Executable& model, int runs) {
  std::vector<Bytes> inputs, outputs;
  uint32_t seed = 1;
  for (const ir::Type& type : model.input_types()) {
    const auto count = static_cast<size_t>(type.elements());
    if (type.dtype == ir::DType::kF32) {
      inputs.push_back(emulator::bytes_of(emulator::numbers(count, seed++)));
    } else {
      inputs.push_back(emulator::bytes_of(std::vector<int32_t>(count, 1)));
    }
  }
  for (const ir::Type& type : model.output_types()) {
    outputs.emplace_back(static_cast<size_t>(type.bytes()));
  }
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Bytes& input : inputs) in.push_back(input.data());
  for (Bytes& output : outputs) out.push_back(output.data());
  for (int i = 0; i < runs; ++i) model.run(in, out);
  emulator::Outcome result = state_of(model);
  result.outputs = outputs;
  return result;
}

std::string text_of_execution(const Executable& model) {
  ir::Module module(ops::registry());
  module.execution() = model.execution();
  return ir::print(module);
}

TEST(ExecutableFile, GoesOnAsTheNeverSaved) {
  for (const char* optimiser : {"sgd", "adamw"}) {
    for (const int64_t replicas : {1, 2}) {
      SCOPED_TRACE(std::string(optimiser) + " " + std::to_string(replicas));
      const Scratch scratch;
      ir::Execution execution = training(optimiser);
      execution.replication_factor = replicas;
      const auto model = with_weights(kNet, execution);
      after(*model, 3);
      save(*model, scratch.path("f"));
      const auto saved_state = state_of(*model);
      const auto expected = after(*model, 3);
      for (const int threads : {1, 2, 4}) {
        const Loaded loaded = load_file(scratch.path("f"), ops::registry(), {.threads = threads});
        EXPECT_EQ(state_of(*loaded.executable), saved_state);
        EXPECT_EQ(after(*loaded.executable, 3), expected);
        EXPECT_EQ(text_of_execution(*loaded.executable), text_of_execution(*model));
      }
      EXPECT_EQ(scratch.names(), std::vector<std::string>{"f"});
    }
  }
}

// Each loaded executable has private memory, and the file does not change.
TEST(ExecutableFile, IsNotWrittenByRuns) {
  const Scratch scratch;
  const auto model = with_weights(kNet, training("sgd"));
  save(*model, scratch.path("f"));
  const std::string before = content_of(scratch.path("f"));
  const Loaded one = load_file(scratch.path("f"), ops::registry());
  const Loaded two = load_file(scratch.path("f"), ops::registry());
  const auto expected = after(*model, 2);
  EXPECT_EQ(after(*one.executable, 2), expected);
  EXPECT_EQ(after(*two.executable, 2), expected);
  EXPECT_TRUE(content_of(scratch.path("f")) == before);
  save(*one.executable, scratch.path("f"));  // onto the file that it is mapped from
  EXPECT_EQ(after(*one.executable, 1), after(*two.executable, 1));
  EXPECT_EQ(state_of(*load_file(scratch.path("f"), ops::registry()).executable), [&] {
    auto state = expected;
    state.outputs.clear();
    return state;
  }());
}

TEST(ExecutableFile, LeavesOutWhatItIsAskedTo) {
  const Scratch scratch;
  const auto model = with_weights(kNet, training("sgd"));
  model->set_random_state({77, 5});
  save(*model, scratch.path("bare"), {.state = false, .random_state = false});
  save(*model, scratch.path("all"), {.sections = {{"mine", "bytes"}}});
  const Loaded bare = load_file(scratch.path("bare"), ops::registry());
  EXPECT_FALSE(bare.file->has("state"));
  EXPECT_NE(bare.executable->random_state(), model->random_state());
  Bytes weight(16 * 4 * 4, std::byte{1});
  bare.executable->read_state("w", weight.data());
  EXPECT_EQ(weight, Bytes(16 * 4 * 4));
  const Loaded all = load_file(scratch.path("all"), ops::registry());
  EXPECT_EQ(all.file->read("mine"), "bytes");
  EXPECT_EQ(all.executable->random_state(), model->random_state());
}

// Returns a file in which one section is replaced by another text.
std::string exchanged(const Scratch& scratch, const std::string& from, const std::string& section,
                      const std::string& text) {
  const storage::Container file(scratch.path(from));
  storage::ContainerWriter writer(scratch.path("exchanged"), file.sections().size());
  for (const std::string& name : file.sections()) {
    writer.begin(name);
    writer.add(name == section ? text : std::string(file.read(name)));
  }
  writer.commit();
  return scratch.path("exchanged");
}

std::string refusal(const std::string& path) {
  return text_of<UserError>([&] { load_file(path, ops::registry(), {.threads = 1}); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

TEST(ExecutableFile, RefusesPartsThatDoNotFit) {
  const Scratch scratch;
  const auto model = with_weights(kNet, training("sgd"));
  save(*model, scratch.path("f"));
  const storage::Container file(scratch.path("f"));
  const auto part = [&](const char* name) { return std::string(file.read(name)); };
  const auto with = [&](const char* section, const std::string& text) {
    return refusal(exchanged(scratch, "f", section, text));
  };
  const std::string invalid = "Invalid file " + scratch.path("exchanged") + ": ";
  EXPECT_EQ(with("about", R"({"version":"0.0.1","highest_ipu":""})"),
            invalid +
                "PopTorch version mismatch: File was created with version: 0.0.1 and this "
                "is version " +
                support::version() + ". Export the model again with this one.");
  for (const char* about : {"", "[]", "7", "{}", "{\"version\":1,\"highest_ipu\":\"\"}", "{",
                            "{\"version\":\"1\",\"highest_ipu\":[]}"}) {
    EXPECT_NE(with("about", about).find("its description is incomplete"), std::string::npos)
        << about;
  }
  for (const char* state : {"[]", "[1]", "[-1,2]", "[\"a\",2]", "7", "null"}) {
    const std::string text = replaced(
        part("about"), "\"random_state\":", "\"random_state\":" + std::string(state) + ",\"was\":");
    EXPECT_NE(with("about", text), "no error") << state;
  }
  for (const char* section : {"execution", "program", "state"}) {
    EXPECT_TRUE(with(section, "no such thing").starts_with(invalid)) << section;
    EXPECT_TRUE(
        with(section, "").starts_with(section == std::string("execution") ? "no error" : invalid))
        << section;
  }
  EXPECT_TRUE(with("program", replaced(part("program"), "micro_batches=2", "micro_batches=3"))
                  .starts_with(invalid));
  const std::string other = replaced(part("state"), "\"seen\"", "\"soon\"");
  EXPECT_EQ(with("state", other),
            invalid + "[file] '" + scratch.path("exchanged") +
                "' is damaged: its program has the state 'seen', f32[3], which is not among its "
                "tensors. Write it again.");
  const std::string typed =
      replaced(part("state"), "\"F32\",\"shape\":[3]", "\"I32\",\"shape\":[3]");
  EXPECT_NE(with("state", typed).find("which is not among its tensors"), std::string::npos);
}

TEST(ExecutableFile, RefusesWhatIsDamagedAnywhere) {
  const Scratch scratch;
  save(*with_weights(kNet, training("sgd")), scratch.path("f"));
  const std::string good = content_of(scratch.path("f"));
  const storage::Container file(scratch.path("f"));
  for (const std::string& section : file.sections()) {
    const size_t size = file.read(section).size(), begin = good.find(file.read(section));
    for (size_t place = begin; place < begin + size; place += 1 + size / 16) {
      std::string bytes = good;
      bytes[place] = static_cast<char>(bytes[place] ^ 4);
      put(scratch.path("damaged"), bytes);
      EXPECT_TRUE(refusal(scratch.path("damaged")).starts_with("Invalid file ")) << place;
    }
  }
  for (size_t size = 0; size < good.size(); size += 211) {
    put(scratch.path("damaged"), good.substr(0, size));
    EXPECT_TRUE(refusal(scratch.path("damaged")).starts_with("Invalid file ")) << size;
  }
}

// Every replica adds its group's weight to its input, and keeps the sum where `writes`.
std::string grouped(bool writes, int elements) {
  const std::string n = std::to_string(elements);
  return "state \"w\" : f32[" + n + "] {kind=\"buffer\", group_size=2}\ngraph @main(%x: f32[1," +
         n + "]) -> (f32[1," + n + "]) {\n  %w = variable() {name=\"w\"} : f32[" + n +
         "]\n  %y = add(%x, %w) : f32[1," + n + "]\n  %z = mul(%w, %w) : f32[" + n + "]\n" +
         (writes ? "  assign(%w, %z)\n" : "") + "  return %y\n}\n";
}

// An engine takes the given memory over if possible, and otherwise leaves it unchanged.
TEST(StateBytes, AreSharedWhereTheyMayBe) {
  for (const bool writes : {false, true}) {
    for (const int elements : {16, 3}) {
      for (const size_t shift : {size_t{0}, size_t{4}}) {
        SCOPED_TRACE(::testing::Message() << writes << elements << shift);
        const auto program =
            emulator::lowered(grouped(writes, elements), {.replication_factor = 4});
        const size_t bytes = static_cast<size_t>(elements) * 4;
        const std::shared_ptr<std::byte> given(static_cast<std::byte*>(std::aligned_alloc(64, 256)),
                                               std::free);
        const auto values = emulator::bytes_of(emulator::numbers(bytes / 2, 3));
        std::memcpy(given.get() + shift, values.data(), 2 * bytes);
        emulator::Engine engine(program, ops::registry(),
                                {.threads = 1, .state = [&](const program::State&) {
                                   return std::shared_ptr<std::byte>(given, given.get() + shift);
                                 }});
        Bytes now(2 * bytes);
        engine.state().read("w", now.data());
        EXPECT_EQ(now, values);
        const auto inputs = emulator::made_up_inputs(program);
        const auto outputs = emulator::values_of<float>(emulator::run_once(engine, inputs)[0]);
        const auto x = emulator::values_of<float>(inputs[0]),
                   w = emulator::values_of<float>(values);
        for (size_t i = 0; i < outputs.size(); ++i) {
          const size_t row = i / static_cast<size_t>(elements),
                       column = i % static_cast<size_t>(elements);
          EXPECT_EQ(outputs[i], x[i] + w[row / 2 * static_cast<size_t>(elements) + column]) << i;
        }
        engine.state().read("w", now.data());
        const auto squares = emulator::values_of<float>(now);
        for (size_t i = 0; i < w.size(); ++i) EXPECT_EQ(squares[i], writes ? w[i] * w[i] : w[i]);
        const Bytes other(2 * bytes, std::byte{0x3f});
        engine.state().write("w", other.data());
        engine.state().read("w", now.data());
        EXPECT_EQ(now, other);
        const bool shared = elements == 16 && shift == 0;
        EXPECT_EQ(std::memcmp(given.get() + shift, other.data(), 2 * bytes) == 0, shared);
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::session
