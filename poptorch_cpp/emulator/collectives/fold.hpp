// Sums and other reductions over replicas. The same rule applies whether one instance has all
// operands or a partial result goes from one to the next. Operands are taken in their order. The
// partial result has a separate type, so that nothing is rounded in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/bound/collective_spec.hpp"
#include "ir/type.hpp"

namespace poptorch::emulator {

class Fold {
 public:
  // Throws UnsupportedError for a type that cannot be reduced.
  Fold(ir::DType dtype, Reduction how);

  // Selects `elements` of the operands from `first` on, to be folded after the partial results in
  // `before` (nullptr: none). The result may overwrite `before` or the operands.
  struct Part {
    const std::vector<const std::byte*>& operands;
    int64_t first = 0, elements = 0;
    const std::byte* before = nullptr;
  };
  // Returns the bytes of one element's partial result.
  int64_t partial_bytes() const { return partial_bytes_; }
  void partial(const Part& part, std::byte* into) const;
  // Writes the reduction of all `ranks` operands, these and those before. `into` begins with the
  // first of `elements`.
  void finish(const Part& part, std::byte* into, int64_t ranks) const;
  // Returns whether a single operand, unconverted, is its own partial result.
  bool is_own_partial() const { return is_own_partial_; }

  using Function = void (*)(const Part& part, std::byte* into, bool is_partial, bool mean,
                            int64_t ranks);

 private:
  Function function_;
  bool mean_;
  bool is_own_partial_;
  int64_t partial_bytes_;
};

// Writes the reduction of the operands, in their order, to `result`, which may be one of them.
void reduce_ranks(ir::DType dtype, Reduction how, const std::vector<const std::byte*>& operands,
                  std::byte* result, int64_t elements);

}  // namespace poptorch::emulator
