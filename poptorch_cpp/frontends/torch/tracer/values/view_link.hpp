// One step from a base tensor to a view of it: how the view's value is read from the base's, and
// how the base's new value follows from a new value of the view. No torch here.
#pragma once

#include <memory>

#include "ir/builder.hpp"

namespace poptorch::frontend {

class ViewLink {
 public:
  virtual ~ViewLink() = default;
  virtual ir::Value* read(ir::Builder& builder, ir::Value* base) const = 0;
  // The value of the base after the view was overwritten by `view`. `base`: its value before.
  virtual ir::Value* write(ir::Builder& builder, ir::Value* base, ir::Value* view) const = 0;
};

using ViewLinkPtr = std::shared_ptr<const ViewLink>;

// Same elements in the same row-major order.
ViewLinkPtr reshape_link(ir::Shape from, ir::Shape to);
ViewLinkPtr transpose_link(ir::Ints permutation);
ViewLinkPtr slice_link(ir::Ints starts, ir::Ints stops, ir::Ints steps);
// Writing through a broadcast is refused: torch does so too.
ViewLinkPtr broadcast_link(ir::Shape from, ir::Shape to);
// Element i of the view (row-major) is element indices[i] of the base (row-major): as_strided,
// diagonal, unfold and whatever has no link of its own.
ViewLinkPtr strided_link(ir::Shape from, ir::Shape to, std::vector<int32_t> indices);
ViewLinkPtr chain_link(ViewLinkPtr first, ViewLinkPtr second);

}  // namespace poptorch::frontend
