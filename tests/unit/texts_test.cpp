// Runs the modules of a folder, one after the other. tests/nightly/sizes.py writes those of the
// table of ops, whose shapes are larger than other unit tests have.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "random_floats.hpp"
#include "session/session.hpp"
#include "support/half.hpp"

namespace poptorch::session {
namespace {

namespace fs = std::filesystem;
using emulator::Floats;

// Returns the bits of a number from -1 to 1; integers are 0 or 1, so that they are indices of
// anything.
uint32_t number(ir::DType dtype, float uniform) {
  switch (dtype) {
    case ir::DType::kF32:
      return std::bit_cast<uint32_t>(uniform);
    case ir::DType::kF16:
      return support::to_half(uniform);
    case ir::DType::kBF16:
      return support::to_bfloat16(uniform);
    default:
      return uniform > 0 ? 1 : 0;
  }
}

// Repeats some numbers, which differ by seed: there are many elements, and sanitizers are slow.
std::vector<std::byte> made_up(const ir::Type& type, uint32_t seed) {
  constexpr int64_t kNumbers = 1009;
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  const int64_t size = type.elements() > 0 ? type.bytes() / type.elements() : 0;
  const Floats numbers = emulator::random_floats(kNumbers, seed);
  for (int64_t i = 0; i < std::min(kNumbers, type.elements()); ++i) {
    const uint32_t bits = number(type.dtype, numbers[i]);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  for (int64_t i = kNumbers * size; i < type.bytes(); i += kNumbers * size) {
    std::memcpy(bytes.data() + i, bytes.data(), std::min(kNumbers * size, type.bytes() - i));
  }
  return bytes;
}

void run_text(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  const auto executable = compile(ir::parse(text.str(), ops::registry(), file.filename().string()));
  uint32_t seed = 0;
  for (const ir::StateSlot& slot : executable->states()) {
    if (slot.kind != "parameter" && slot.kind != "buffer") continue;
    const ir::Type type = executable->state_type(slot);
    executable->write_state(slot.name.text(), made_up(type, ++seed).data());
  }
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const ir::Type& type : executable->input_types()) inputs.push_back(made_up(type, ++seed));
  for (const ir::Type& type : executable->output_types()) {
    outputs.emplace_back(static_cast<size_t>(type.bytes()));
  }
  for (const auto& input : inputs) from.push_back(input.data());
  for (auto& output : outputs) to.push_back(output.data());
  executable->run(from, to);
}

TEST(Texts, OfAFolderRun) {
  const char* folder = std::getenv("POPTORCH_TEXTS");
  if (!folder) GTEST_SKIP() << "POPTORCH_TEXTS does not name a folder";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::cout << file.filename().string() << std::endl;  // a sanitizer's report follows it
    EXPECT_NO_THROW(run_text(file));
  }
  std::cout << files.size() << " texts ran\n";
}

}  // namespace
}  // namespace poptorch::session
