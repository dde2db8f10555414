// include/poptorch/runtime.hpp: a saved executable on plain buffers.
#include "include/poptorch/runtime.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "error_text.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "session/executable_file.hpp"

namespace poptorch {
namespace {

constexpr const char* kModel = R"(
state "w" : f32[16]
graph @main(%x: f32[16]) -> (f32[16]) {
  %w = variable() {name="w"} : f32[16]
  %y = mul(%x, %w) : f32[16]
  return %y
}
)";

class Runtime : public testing::Test {
 protected:
  Runtime() {
    auto executable = session::compile(ir::parse(kModel, ops::registry()));
    executable->write_state("w", reinterpret_cast<const std::byte*>(weights.data()));
    session::save(*executable, path, {.input_names = {"images"}});
  }
  ~Runtime() override { std::filesystem::remove(path); }

  // Tests run at the same time, each in a separate process.
  const std::string path =
      testing::TempDir() + "runtime_test" + std::to_string(getpid()) + ".poptorch";
  std::vector<float> weights = std::vector<float>(16, 3);
  std::vector<float> x = std::vector<float>(16, 2), y = std::vector<float>(16);
};

TEST_F(Runtime, RunsWhatWasSaved) {
  runtime::Model model(path, 1);
  ASSERT_EQ(model.inputs().size(), 1u);
  EXPECT_EQ(model.inputs()[0].name, "images");
  EXPECT_EQ(model.inputs()[0].dtype, "f32");
  EXPECT_EQ(model.inputs()[0].elements(), 16u);
  EXPECT_EQ(model.outputs().at(0).bytes, 64u);
  model.run({x.data()}, {y.data()});
  EXPECT_EQ(y, std::vector<float>(16, 6));
  EXPECT_EQ(model.state().at(0).name, "w");
  const std::vector<float> other(16, 5);
  model.writeState("w", other.data());
  model.run({x.data()}, {y.data()});
  EXPECT_EQ(y, std::vector<float>(16, 10));
  model.readState("w", y.data());
  EXPECT_EQ(y, other);
  runtime::Model again(path);  // the file stays as it was
  again.run({x.data()}, {y.data()});
  EXPECT_EQ(y, std::vector<float>(16, 6));
}

TEST_F(Runtime, SaysWhatIsWrong) {
  runtime::Model model(path);
  EXPECT_EQ(text_of<runtime::Error>([&] { model.run({}, {y.data()}); }),
            "[run] the model has 1 inputs, but 0 buffers were given. Give one for each.");
  EXPECT_EQ(text_of<runtime::Error>([&] {
              model.readState("v", y.data());
            }).find("[state] there is no state 'v'."),
            0u);
  EXPECT_NE(
      text_of<runtime::Error>([] { runtime::Model("/nowhere"); }).find("Invalid file /nowhere: "),
      std::string::npos);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_NE(text_of<runtime::Error>([&] { runtime::Model{path}; }).find("is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace poptorch
