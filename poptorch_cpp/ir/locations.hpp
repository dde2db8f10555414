// Where kinds of tensors are stored: on the chip or in Streaming Memory. Values never depend on it.
#pragma once

#include <cstdint>
#include <optional>

namespace poptorch::ir {

struct TensorLocation {
  std::optional<bool> on_chip = std::nullopt;  // absent: the execution strategy decides
  int64_t least_off_chip = 2;                  // elements; smaller tensors stay on the chip
  bool sharded = false;                        // split over the replicas
  int64_t least_sharded = 8192;
  bool io_tiles_load = false, io_tiles_store = false;

  // Returns whether a tensor of `elements` elements is stored off the chip.
  bool is_off_chip(int64_t elements, bool by_default) const {
    return !on_chip.value_or(!by_default) && elements >= least_off_chip;
  }

  bool is_sharded(int64_t elements) const { return sharded && elements >= least_sharded; }
};

struct TensorLocations {
  TensorLocation weights = {}, activations = {}, optimiser_state = {}, accumulators = {};
};

}  // namespace poptorch::ir
