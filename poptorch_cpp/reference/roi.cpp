// Kernels of the means of regions. A region is a grid of samples along two axes; samples outside of
// the image count as zeros and are skipped.
#include <algorithm>
#include <cmath>

#include "reference/tensors.hpp"

namespace poptorch::reference {
namespace {

// A sample's position on an axis of the image.
struct Sample {
  int64_t bin, low, high;  // of the result; the elements around the place
  double share;            // weight of the upper one
  double along;            // how far into the region, from 0 to 1
  bool inside;             // between two elements: the place moves with the region's edges
};

struct Axis {
  std::vector<Sample> samples;  // no more than a pixel outside of the image
  double each = 0;              // samples a bin; 0 for edges that are not usable numbers
  bool longer = false;          // than one pixel, the least
};

constexpr double kMostSamples = 1e15;  // counted in doubles

// Edges are in pixels. `given`: samples a bin, if positive. `round` rounds to the working type.
template <typename Round>
Axis axis_of(double begin, double end, int64_t bins, int64_t size, int64_t given, Round round) {
  Axis axis;
  const double pixels = round(end - begin), length = std::max(pixels, 1.0);
  const double wanted =
      given > 0 ? static_cast<double>(given) : std::ceil(round(length / static_cast<double>(bins)));
  const double all = wanted * static_cast<double>(bins);
  if (!std::isfinite(begin) || !std::isfinite(end) || all > kMostSamples) return axis;
  axis.each = wanted;
  axis.longer = pixels > 1;
  const auto last = static_cast<double>(size - 1);
  const auto number = [&](double place) { return (place - begin) / length * all - 0.5; };
  const double stop = std::min(all - 1, std::ceil(number(last + 1)));
  for (double i = std::max(0.0, std::floor(number(-1))); size > 0 && i <= stop; ++i) {
    const double along = (i + 0.5) / all, place = begin + length * along;
    if (place < -1 || place > last + 1) continue;
    const double near = std::clamp(place, 0.0, last);
    const auto low = std::min(static_cast<int64_t>(near), std::max<int64_t>(size - 2, 0));
    axis.samples.push_back({.bin = static_cast<int64_t>(i / wanted),
                            .low = low,
                            .high = std::min(low + 1, size - 1),
                            .share = near - static_cast<double>(low),
                            .along = along,
                            .inside = place >= 0 && place <= last});
  }
  return axis;
}

// A region of an image, and the positions of its samples.
struct Region {
  Axis down, across;
  int64_t image = -1;  // -1: not an image of the batch
  double samples() const { return down.each * across.each; }
};

Region region_of(Tensors& t, int64_t r) {
  const double scale = t.number("scale");
  const bool wide = t.type(1).dtype == DType::kF64;
  const auto round = [&](double v) {
    return wide ? v : static_cast<double>(static_cast<float>(v));
  };
  const double* edges = t.in(1).data() + 4 * r;
  const auto along = [&](int64_t first, const char* bins, int64_t size) {
    const double begin = round(edges[first] * round(scale));
    const double end = round(edges[first + 2] * round(scale));
    return axis_of(begin, end, t.integer(bins), size, t.integer("samples"), round);
  };
  const double image = t.in(2)[r];
  const bool exists = image >= 0 && image < static_cast<double>(t.shape(0)[0]);
  return {along(1, "rows", t.shape(0)[2]), along(0, "columns", t.shape(0)[3]),
          exists ? static_cast<int64_t>(image) : -1};
}

// Calls visit(region, r, first element of x's plane, first element of y's) for each region and
// channel.
template <typename Visit>
void for_each_plane(Tensors& t, Visit visit) {
  const Shape& x = t.shape(0);
  const int64_t bins = t.integer("rows") * t.integer("columns");
  for (int64_t r = 0; r < t.shape(1)[0]; ++r) {
    const Region region = region_of(t, r);
    if (region.image < 0) continue;
    for (int64_t c = 0; c < x[1]; ++c) {
      visit(region, r, (region.image * x[1] + c) * x[2] * x[3], (r * x[1] + c) * bins);
    }
  }
}

void roi_align(Tensors& t) {
  const int64_t width = t.shape(0)[3], columns = t.integer("columns");
  const int64_t bins = t.integer("rows") * columns;
  for_each_plane(t, [&](const Region& region, int64_t, int64_t from, int64_t to) {
    const double* x = t.in(0).data() + from;
    double* y = t.out().data() + to;
    for (const Sample& v : region.down.samples) {
      const double *low = x + v.low * width, *high = x + v.high * width;
      for (const Sample& h : region.across.samples) {
        const double above = low[h.low] + h.share * (low[h.high] - low[h.low]);
        const double below = high[h.low] + h.share * (high[h.high] - high[h.low]);
        y[v.bin * columns + h.bin] += above + v.share * (below - above);
      }
    }
    for (int64_t i = 0; i < bins; ++i) y[i] /= region.samples();
  });
}

// Adds the gradients of an axis's edges, from the gradient of a sample's place.
void move_edges(double* begin, double* end, const Axis& axis, const Sample& sample, double d) {
  const double stretched = axis.longer ? sample.along : 0.0;
  *begin += d * (1 - stretched);
  *end += d * stretched;
}

void roi_align_grad(Tensors& t) {
  const int64_t width = t.shape(0)[3], columns = t.integer("columns");
  const double scale = t.number("scale");
  const bool edges_too = t.result_data(1) != nullptr;
  t.out(0);
  t.out(1);
  for_each_plane(t, [&](const Region& region, int64_t r, int64_t to, int64_t from) {
    const double *x = t.in(0).data() + to, *dy = t.in(3).data() + from;
    double *dx = t.out(0).data() + to, *edges = t.out(1).data() + 4 * r;
    for (const Sample& v : region.down.samples) {
      const int64_t low = v.low * width, high = v.high * width;
      for (const Sample& h : region.across.samples) {
        const double d = dy[v.bin * columns + h.bin] / region.samples();
        const double above = d * (1 - v.share), below = d * v.share;
        dx[low + h.low] += above * (1 - h.share);
        dx[low + h.high] += above * h.share;
        dx[high + h.low] += below * (1 - h.share);
        dx[high + h.high] += below * h.share;
        if (!edges_too) continue;
        const double top = x[low + h.high] - x[low + h.low];
        const double bottom = x[high + h.high] - x[high + h.low];
        const double left = x[high + h.low] - x[low + h.low];
        const double right = x[high + h.high] - x[low + h.high];
        const double across = scale * (above * top + below * bottom);
        const double down = scale * d * (left + h.share * (right - left));
        if (h.inside) move_edges(edges, edges + 2, region.across, h, across);
        if (v.inside) move_edges(edges + 1, edges + 3, region.down, v, down);
      }
    }
  });
}

}  // namespace

void add_roi_kernels(Table& table) {
  table["roi_align"] = {with_tensors<roi_align>};
  table["roi_align_grad"] = {with_tensors<roi_align_grad>};
}

}  // namespace poptorch::reference
