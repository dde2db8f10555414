// Sums and other reductions over replicas: one rule, whether one instance has all operands or a
// partial result goes from one to the next. Operands are taken in their order; the partial result
// has a type of its own, which no rounding in between narrows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/bound/collective_spec.hpp"
#include "ir/type.hpp"

namespace poptorch::emulator {

class Fold {
 public:
  // UnsupportedError for a type that has no reduction.
  Fold(ir::DType dtype, Reduction how);

  // Elements `first`... of the operands, behind what `before` holds (partial results; nullptr:
  // nothing). May write over `before`, or over the operands' own memory.
  struct Part {
    const std::vector<const std::byte*>& operands;
    int64_t first = 0, elements = 0;
    const std::byte* before = nullptr;
  };
  // Bytes of one partial result.
  int64_t partial_bytes() const { return partial_bytes_; }
  void partial(const Part& part, std::byte* into) const;
  // Of all `ranks` operands, these and those before. `into` begins with the first of `elements`.
  void finish(const Part& part, std::byte* into, int64_t ranks) const;
  // Whether one operand alone is, as it stands, the partial result of itself.
  bool is_own_partial() const { return is_own_partial_; }

  using Function = void (*)(const Part& part, std::byte* into, bool is_partial, bool mean,
                            int64_t ranks);

 private:
  Function function_;
  bool mean_;
  bool is_own_partial_;
  int64_t partial_bytes_;
};

// result = the reduction of the operands, in their order; each may be the result's own memory.
void reduce_ranks(ir::DType dtype, Reduction how, const std::vector<const std::byte*>& operands,
                  std::byte* result, int64_t elements);

}  // namespace poptorch::emulator
