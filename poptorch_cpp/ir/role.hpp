// The role of an op: the kind of op that its row (op_def.hpp) describes.
#pragma once

#include <cstdint>

namespace poptorch::ir {

// What kind of op a row is, for those who treat a kind alike: they ask for the role, or for another
// fact of the row, never for names. In brackets, who relies on it. What such an op names in its
// attributes is read by ir/roles.hpp.
enum class Role : uint8_t {
  kPlain,  // computes its results from its operands; the rest of the row says all

  // Leaves, is_leaf(): on no IPU and known on each [partition], stated anew where a gradient graph
  // needs them [autodiff].
  kConstant,  // the literal `value` [folding, rewrites]
  kState,     // the memory of the slot `name`; its reads and writes keep their order [effects]

  // Views, is_view(): the result may be operand 0's memory, at no cost [memory plan, bind].
  kIdentity,  // operand 0 as it is: a copy, or a mark, through which rewrites do not look
  kView,      // its elements in row-major order under another shape [rewrites]

  kBroadcast,   // operand 0 repeated to a shape: kernels read what is repeated faster [folding]
  kCast,        // operand 0 in another element type: rounds, and computes nothing [rounding]
  kComparison,  // a truth value of operands 0 and 1, of which none should be nan [check_floats]
  kUnusual,     // a truth value of operand 0, false where that is finite [known values]
  kProduct,     // a matrix product or convolution: dearer to compute again than to keep [emulator]
  kAccumulation,  // adds to a sum that its own stage alone may look at meanwhile [check_floats]
  kCopy,          // operand 0 on the IPU `to` [partition, lowering]
  kCollective,    // over groups of replicas, which meet for it: no kernel [emulator]

  // These run graphs, `bodies`. Their last operands are those graphs' inputs.
  kCall,    // a graph once, in the op's place: inlined. May name its `gradient` [autodiff]
  kRegion,  // a graph `count` times, or that of several which operand 0 chooses [partition,
            // autodiff]

  kOpaque,  // a kernel of `provider`, of which nothing is known: neither computed again nor rounded
  kLoss,    // where gradients may begin; of equal ones each counts [autodiff, merging]
  kGradient,  // marks operand 0 as the gradient of the slot `parameter` [optimiser, anchors]
};

}  // namespace poptorch::ir
