// One step from a base tensor to a view of it. A link reads the view's value from the base's, and
// computes the base's new value from a new value of the view. Does not depend on torch.
#pragma once

#include <memory>

#include "ir/builder.hpp"

namespace poptorch::frontend {

class ViewLink {
 public:
  virtual ~ViewLink() = default;
  virtual ir::Value* read(ir::Builder& builder, ir::Value* base) const = 0;
  // Returns the value of the base after the view has been overwritten by `view`. `base` is its
  // value before.
  virtual ir::Value* write(ir::Builder& builder, ir::Value* base, ir::Value* view) const = 0;
  // Returns whether several elements of the view are one element of the base.
  virtual bool repeats() const { return false; }
};

using ViewLinkPtr = std::shared_ptr<const ViewLink>;

// The view has the same elements in the same row-major order.
ViewLinkPtr reshape_link(ir::Shape from, ir::Shape to);
ViewLinkPtr transpose_link(ir::Ints permutation);
ViewLinkPtr slice_link(ir::Ints starts, ir::Ints stops, ir::Ints steps);
// write() of the link throws UserError if the view repeats elements; torch refuses such writes too.
ViewLinkPtr broadcast_link(ir::Shape from, ir::Shape to);
// Element i of the view (row-major) is element indices[i] of the base (row-major). Serves
// as_strided, diagonal, unfold and all views without a specific link.
ViewLinkPtr strided_link(ir::Shape from, ir::Shape to, std::vector<int32_t> indices);
// The base has complex numbers and the view pairs of real ones, or the reverse.
ViewLinkPtr pairs_link(ir::Type from, ir::Type to);
// The view has the conjugates or the negatives of the base's numbers.
ViewLinkPtr conjugate_link();
ViewLinkPtr negative_link();
ViewLinkPtr chain_link(ViewLinkPtr first, ViewLinkPtr second);

}  // namespace poptorch::frontend
