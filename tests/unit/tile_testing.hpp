// Helpers of tests that run tile programs.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "emulator/kernels/base/tile_program.hpp"
#include "ir/op_def.hpp"
#include "ops/all_ops.hpp"

namespace poptorch::emulator {

inline const ir::OpDef& op(const char* name) { return ops::registry().get(name); }

inline std::vector<float> numbers(int64_t n, float low, float high, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> out(n);
  for (float& x : out) x = distribution(random);
  return out;
}

template <typename T>
std::byte* bytes(std::vector<T>& data) {
  return reinterpret_cast<std::byte*>(data.data());
}

inline void run(const TileProgram& program, std::vector<std::byte*> buffers, TileBlock block) {
  std::vector<std::byte> scratch(program.scratch_bytes() + 64);
  auto at = reinterpret_cast<uintptr_t>(scratch.data());
  std::byte* aligned = scratch.data() + (64 - at % 64) % 64;
  program.run(buffers.data(), block, aligned, {});
}
inline void run(const TileProgram& program, std::vector<std::byte*> buffers) {
  run(program, std::move(buffers), {.cols = ir::element_count(program.shape())});
}

}  // namespace poptorch::emulator
