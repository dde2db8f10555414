// Foreign kernels: found by the provider's name, called with the attributes of the op, and refused
// if missing.
#include <cstdio>
#include <functional>

#include "emulator/providers/foreign.hpp"
#include "engine_testing.hpp"
#include "error_text.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

constexpr const char* kText = R"(
graph @main(%x: f32[3]) -> (f32[3]) {
  %a = relu(%x) : f32[3]
  %y = aten(%a) {schema="test::negate", arguments="[]"} : f32[3]
  return %y
})";

struct Prepared {
  int64_t elements;
};

void* prepare(const PoptorchForeignOp* op, char* error, size_t size) {
  std::string schema;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (std::string(op->attrs[i].name) == "schema") schema = op->attrs[i].value;
  }
  if (schema != "test::negate" || op->inputs[0].rank != 1) {
    std::snprintf(error, size, "no kernel for %s.", schema.c_str());
    return nullptr;
  }
  return new Prepared{op->inputs[0].shape[0]};
}

int32_t run(void* handle, void* const* buffers, int32_t, char* error, size_t size) {
  const auto* prepared = static_cast<const Prepared*>(handle);
  const auto* x = static_cast<const float*>(buffers[0]);
  for (int64_t i = 0; i < prepared->elements; ++i) {
    if (x[i] > 100) {
      std::snprintf(error, size, "element %d is too large.", static_cast<int>(i));
      return 1;
    }
    static_cast<float*>(buffers[1])[i] = -x[i];
  }
  return 0;
}

void release(void* handle) { delete static_cast<Prepared*>(handle); }

constexpr PoptorchForeignProvider kProvider{"aten", kForeignVersion, prepare, run, release};

TEST(EngineForeign, RunsThroughItsProvider) {
  const program::Program program = lowered(kText);
  EXPECT_EQ(
      text_of<support::UserError>([&] { Engine engine(program, ops::registry(), {.threads = 1}); }),
      "[engine] op 'aten' (test::negate) needs the kernels of provider 'aten', which is not "
      "loaded. Load the library that registers it before the program; for 'aten' that is PyTorch "
      "with PopTorch.");
  register_foreign_provider(kProvider);
  Engine engine(program, ops::registry(), {.threads = 1});
  using Floats = std::vector<float>;
  const auto outputs = run_once(engine, {bytes_of(Floats{1, -2, 3})});
  EXPECT_EQ(values_of<float>(outputs[0]), (Floats{-1, -0.0f, -3}));
  EXPECT_EQ(text_of<support::UserError>([&] { run_once(engine, {bytes_of(Floats{1, 2, 300})}); }),
            "[aten] element 2 is too large.");
  std::string other = kText;
  other.replace(other.find("test::negate"), 12, "test::double");
  EXPECT_EQ(
      text_of<support::UserError>([&] { Engine(lowered(other), ops::registry(), {.threads = 1}); }),
      "[aten] no kernel for test::double.");
}

TEST(EngineForeign, RefusesProvidersOfAnotherVersion) {
  PoptorchForeignProvider old = kProvider;
  old.version = 0;
  EXPECT_EQ(text_of<support::UserError>([&] { register_foreign_provider(old); }),
            "[foreign] provider 'aten' was made for version 0 of the kernel table, but this is "
            "version 2. Build it again.");
}

}  // namespace
}  // namespace poptorch::emulator
