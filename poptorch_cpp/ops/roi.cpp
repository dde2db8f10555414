// Averages regions of images.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

std::vector<ir::AttrDef> grid() {
  return {at_least(1, {"rows", AttrType::kInt}),
          at_least(1, {"columns", AttrType::kInt}),
          {"scale", AttrType::kFloat, 1.0},
          within({"samples", AttrType::kInt, int64_t{0}}, 0, 1 << 20)};
}

// Returns the type of [regions, channels, rows, columns].
Type of_regions(const InferContext& c) {
  const Type &x = c.operand(0), &rois = c.operand(1);
  if (x.rank() != 4) c.fail(str("x must be [images, channels, height, width] but is ", x, "."));
  if (rois.rank() != 2 || rois.shape[1] != 4) {
    c.fail(str("rois must be [regions, 4] but is ", rois, "."));
  }
  require_shape(c, 2, {rois.shape[0]});
  const int64_t rows = c.attr<int64_t>("rows"), columns = c.attr<int64_t>("columns");
  return {x.dtype, {rois.shape[0], x.shape[1], rows, columns}};
}

// A sample reads four elements. Without a number of samples, the cost assumes two a bin and axis.
CostRule sampling() {
  return [](const Op& op) {
    const auto given = static_cast<double>(op.attr<int64_t>("samples"));
    const double samples = given > 0 ? given * given : 4;
    const double bins = static_cast<double>(op.attr<int64_t>("rows")) *
                        static_cast<double>(op.attr<int64_t>("columns"));
    const Type& x = op.operand(0)->type();
    const Type& rois = op.operand(1)->type();
    const double elements =
        bins * static_cast<double>(rois.shape[0]) * static_cast<double>(x.shape[1]);
    return Cost{8 * samples * elements, bytes_of(op)};
  };
}

}  // namespace

void add_roi_ops(Registry& r) {
  r.add({.name = "roi_align",
         .doc = "Means of samples, interpolated between pixels, of regions (x1, y1, x2, y2) of "
                "images. `samples` is their number per bin and axis; 0: the region's pixels "
                "divided by the bins, rounded up.",
         .inputs = {"x: float", "rois: float", "image: i32"},
         .outputs = {"y"},
         .attrs = grid(),
         .infer = [](const InferContext& c) { return std::vector{of_regions(c)}; },
         .grad =
             [](GradBuilder& g) {
               ir::Attrs attrs;
               for (const char* name : {"rows", "columns", "scale", "samples"}) {
                 attrs.set(name, g.op().attr_value(name));
               }
               Op* op =
                   g.builder().emit("roi_align_grad", {g.x(0), g.x(1), g.x(2), g.dy(0)}, attrs);
               return std::vector<Value*>{op->result(0), g.needs(1) ? op->result(1) : nullptr,
                                          nullptr};
             },
         .cost = sampling(),
         .popart_type = "RoiAlign"});
  r.add({.name = "roi_align_grad",
         .doc = "Gradients of roi_align's x and rois; the number of samples does not change.",
         .inputs = {"x: float", "rois: float", "image: i32", "dy: float"},
         .outputs = {"dx", "drois"},
         .attrs = grid(),
         .infer =
             [](const InferContext& c) {
               require_type(c, 3, of_regions(c));
               return std::vector{c.operand(0), c.operand(1)};
             },
         .grad = NoGradient{"second derivatives of roi_align are not supported"},
         .cost = sampling(),
         .popart_type = "RoiAlignGrad"});
}

}  // namespace poptorch::ops
