// Point clouds: finds points that are far apart, and nearest neighbours.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

const NoGradient kIndices{"indices have no gradient", true};

const Type& points(const InferContext& c, size_t operand) {
  const Type& x = c.operand(operand);
  if (x.rank() != 2) c.fail(str("points must be [points, dimensions] but are ", x, "."));
  return x;
}

// Checks borders that divide the points into groups, and the number chosen of each group.
std::vector<Type> chosen(const InferContext& c) {
  const Type& x = points(c, 0);
  const auto &borders = c.attr<Ints>("borders"), &counts = c.attr<Ints>("counts");
  const bool whole = !borders.empty() && borders.front() == 0 && borders.back() == x.shape[0];
  if (!whole || !std::is_sorted(borders.begin(), borders.end())) {
    c.fail(str("the borders of the groups must ascend from 0 to ", x.shape[0], "."));
  }
  if (counts.size() + 1 != borders.size()) c.fail("there must be one count for each group.");
  Wide all = 0;
  for (size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] > borders[g + 1] - borders[g]) {
      c.fail(
          str("group ", g, " has ", borders[g + 1] - borders[g], " points, not ", counts[g], "."));
    }
    all += counts[g];
  }
  require_shape(c, 1, {std::ssize(counts)});
  return {{DType::kI32, {checked_size(c, all)}}};
}

// Counts `pairs` of points: a difference, a square and a sum for each dimension, and a comparison.
Cost distances(const Op& op, double pairs) {
  const auto dimensions = static_cast<double>(op.operand(0)->type().shape[1]);
  return Cost{pairs * (3 * dimensions + 1), bytes_of(op)};
}

Cost choosing(const Op& op) {
  const auto &borders = op.attr<Ints>("borders"), &counts = op.attr<Ints>("counts");
  double pairs = 0, most = 1;
  for (size_t g = 0; g < counts.size(); ++g) {
    pairs += static_cast<double>(counts[g]) * static_cast<double>(borders[g + 1] - borders[g]);
    most = std::max(most, static_cast<double>(counts[g]));
  }
  Cost cost = distances(op, pairs);
  cost.steps = most;  // a point is chosen by its distances to those before
  return cost;
}

std::vector<Type> neighbours(const InferContext& c) {
  const Type &x = points(c, 0), &y = points(c, 1);
  if (x.shape[1] != y.shape[1]) {
    c.fail(str("x and y must have the same number of dimensions but are ", x, " and ", y, "."));
  }
  if (y.shape[0] == 0) c.fail("y has no points.");
  if (c.has(2) != c.has(3)) c.fail("either both x and y must have batches, or neither.");
  require_shape(c, 2, {x.shape[0]});
  require_shape(c, 3, {y.shape[0]});
  return {{DType::kI32, {x.shape[0]}}};
}

}  // namespace

void add_point_ops(Registry& r) {
  r.add({.name = "farthest_points",
         .doc = "Chooses `counts` indices from each group of points, beginning with the group's "
                "`start`th: each next point is the farthest from those chosen, the first of equals "
                "(Eldar et al. 1997).",
         .inputs = {"x: float", "start: i32"},
         .outputs = {"indices"},
         .attrs = {at_least(0, {"borders", AttrType::kInts}),
                   at_least(0, {"counts", AttrType::kInts})},
         .infer = chosen,
         .grad = kIndices,
         .cost = choosing});
  r.add({.name = "nearest_points",
         .doc = "For each point of x the index of the nearest point of y, in the same batch if "
                "there are batches; the first of equals.",
         .inputs = {"x: float", "y: x", "batch_x: i32?", "batch_y: i32?"},
         .outputs = {"indices"},
         .infer = neighbours,
         .grad = kIndices,
         .cost = [](const Op& op) {
           return distances(op, static_cast<double>(op.operand(0)->type().shape[0]) *
                                    static_cast<double>(op.operand(1)->type().shape[0]));
         }});
}

}  // namespace poptorch::ops
