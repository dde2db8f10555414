// The steps of a tile program before its registers are placed: every register is written once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/kernels/base/tile_ops.hpp"

namespace poptorch::emulator {

// How a step rounds at random.
struct RandomRounding {
  uint64_t op_id = 0;
  uint64_t stream = 0;  // of the values that the op rounds
  bool same_in_replicas = false;
  int number = 0;  // of the roundings of the program
};

struct TileStep {
  std::string op;  // of the table, "cast", or "narrow": to the range of the result's dtype
  MicroFn fn = nullptr;
  ProductForm product;
  std::vector<int> sources;  // -1: absent
  std::vector<int> results;
  std::vector<double> immediates;
  std::string text;
  std::optional<RandomRounding> rounding = std::nullopt;
  bool takes_index_step = false;  // see MicroArgs
  bool only_rounds = false;       // at random
  const HalfForms* halves = nullptr;
  MicroFn held_fn = nullptr;  // for registers that hold elements as memory does: see `held`
  HeldAs held = {};
  MicroFn random_fn = nullptr;  // see MicroRow
};

struct Register {
  ir::DType dtype = ir::DType::kF32;
  int slot = -1;  // in scratch, once placed
  int last_use = -1;
  double value = 0;  // of constants
  // True for an f64 that ops read only as a scalar: it is used in memory and does not take a slot.
  bool hyper_parameter = false;
  bool first_only = false;  // one element for a tile: only its first element is ever read
  bool as_stored = false;   // elements are held as in memory: steps convert them
};

// Drops copies, and joins the parts of optimisers into one step each: moving averages and ratios to
// a root. The values of `outputs` stay bit-identical. `uniform` marks registers whose elements are
// all equal.
void shorten_steps(std::vector<TileStep>& steps, std::vector<Register>& registers,
                   const std::vector<bool>& uniform, std::vector<int>& outputs);

// Where the elements of a register come from or go: an input or output, one element for each tile
// of an input or constant, or another step.
enum class Place : uint8_t { kMemory, kOne, kOther };

// Chooses Register::as_stored and first_only, where all steps of the register can.
void hold_as_stored(std::vector<TileStep>& steps, std::vector<Register>& registers,
                    const std::vector<Place>& places);

}  // namespace poptorch::emulator
