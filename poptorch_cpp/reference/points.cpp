// Kernels of point clouds. A NaN distance is never less or greater than another.
#include <algorithm>
#include <limits>

#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

double squared_distance(const double* a, const double* b, int64_t dimensions) {
  double sum = 0;
  for (int64_t d = 0; d < dimensions; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

void farthest_points(const KernelCall& call) {
  const Args a(call);
  const int64_t dimensions = a.shape(0)[1];
  const Doubles x = a.in(0);
  const Integers starts = a.ints(1);
  const Ints &borders = a.list("borders"), &counts = a.list("counts");
  Integers chosen;
  for (size_t g = 0; g < counts.size(); ++g) {
    const int64_t begin = borders[g], size = borders[g + 1] - begin;
    const double* points = x.data() + begin * dimensions;
    Doubles nearest(static_cast<size_t>(size), kFar);  // distances from the chosen points
    int64_t next = starts[g];
    if (counts[g] > 0 && (next < 0 || next >= size)) {
      throw support::UserError(support::str("[", a.op(), "] start ", next, " of group ", g,
                                            " is not in [0, ", size, "). Correct the starts."));
    }
    for (int64_t k = 0; k < counts[g]; ++k) {
      chosen.push_back(begin + next);
      const double* last = points + next * dimensions;
      for (int64_t i = 0; i < size; ++i) {
        double& known = nearest[i];
        known = std::min(known, squared_distance(points + i * dimensions, last, dimensions));
      }
      next = std::max_element(nearest.begin(), nearest.end()) - nearest.begin();
    }
  }
  a.out(0, chosen);
}

void nearest_points(const KernelCall& call) {
  const Args a(call);
  const int64_t count = a.shape(0)[0], others = a.shape(1)[0], dimensions = a.shape(0)[1];
  const Doubles x = a.in(0), y = a.in(1);
  const auto batches = [&](size_t operand, int64_t rows) {
    return a.has(operand) ? a.ints(operand) : Integers(static_cast<size_t>(rows), 0);
  };
  const Integers of_x = batches(2, count), of_y = batches(3, others);
  Integers found;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t batch = of_x[i];
    int64_t best = -1;
    double least = kFar;
    for (int64_t j = 0; j < others; ++j) {
      if (of_y[j] != batch) continue;
      const double distance =
          squared_distance(x.data() + i * dimensions, y.data() + j * dimensions, dimensions);
      if (best >= 0 && !(distance < least)) continue;
      best = j;
      least = distance;
    }
    if (best < 0) {
      throw support::UserError(support::str("[", a.op(), "] batch ", batch, " of row ", i,
                                            " of x has no row in y. Every batch of x must occur "
                                            "in y."));
    }
    found.push_back(best);
  }
  a.out(0, found);
}

}  // namespace

void add_point_kernels(Table& table) {
  table["farthest_points"] = {farthest_points};
  table["nearest_points"] = {nearest_points};
}

}  // namespace poptorch::reference
