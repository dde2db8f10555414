// The role of an op: the kind of op that its row (op_def.hpp) describes.
#pragma once

#include <cstdint>

namespace poptorch::ir {

// The kind of op that a row describes. Code that treats a kind alike asks for the role, or for
// another fact of the row, never for names. The users of a role are in brackets. ir/roles.hpp reads
// the attributes of such an op.
enum class Role : uint8_t {
  kPlain,  // computes its results from its operands; the row says everything else

  // Leaves, is_leaf(): on no IPU and known on each [partition], stated again where a gradient graph
  // needs them [autodiff].
  kConstant,  // the literal `value` [folding, rewrites]
  kState,     // the memory of the slot `name`; its reads and writes keep their order [effects]

  // Views, is_view(): the result may be operand 0's memory, at no cost [memory plan, bind].
  kIdentity,  // operand 0 unchanged: a copy, or a mark, through which rewrites do not look
  kView,      // its elements in row-major order under another shape [rewrites]

  kBroadcast,   // operand 0 repeated to a shape: kernels read the original faster [folding]
  kCast,        // operand 0 in another element type: rounds, and computes nothing [rounding]
  kComparison,  // a truth value of operands 0 and 1, neither of which should be nan [check_floats]
  kUnusual,     // a truth value of operand 0, false if that is finite [known values]
  kProduct,     // a matrix product or convolution: costs more to recompute than to keep [emulator]
  kAccumulation,  // adds to a sum that only its own stage may read meanwhile [check_floats]
  kCopy,          // operand 0 on the IPU `to` [partition, lowering]
  kCollective,    // over groups of replicas, which wait for each other: no kernel [emulator]

  // These run graphs, `bodies`. Their last operands are those graphs' inputs.
  kCall,    // a graph once, in the op's place: inlined. May name its `gradient` [autodiff]
  kRegion,  // a graph `count` times, or one of several, chosen by operand 0 [partition,
            // autodiff]

  kOpaque,    // a kernel of `provider`, with unknown contents: neither recomputed nor rounded
  kLoss,      // where gradients may begin; equal losses all count [autodiff, merging]
  kGradient,  // marks operand 0 as the gradient of the slot `parameter` [optimiser, anchors]
};

}  // namespace poptorch::ir
