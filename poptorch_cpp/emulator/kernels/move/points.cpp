// Kernels of point clouds, and of paths through probabilities. They search in doubles, as the
// reference kernels do, and store the points' coordinates one axis after the other.
#include <limits>

#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/support.hpp"
#include "reference/beam.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Transposes points [count, dimensions] to [dimensions, count].
void turn(const float* points, int64_t count, int64_t dimensions, double* turned) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t d = 0; d < dimensions; ++d) turned[d * count + i] = points[i * dimensions + d];
  }
}

// Computes the squared distances of `point` from `count` points.
void distances(const float* point, const double* turned, int64_t count, int64_t dimensions,
               double* found) {
  std::fill(found, found + count, 0.0);
  for (int64_t d = 0; d < dimensions; ++d) {
    const double place = point[d];
    const double* along = turned + d * count;
    for (int64_t i = 0; i < count; ++i) found[i] += (along[i] - place) * (along[i] - place);
  }
}

class Nearest final : public BoundKernel {
 public:
  explicit Nearest(const KernelRequest& request)
      : count_(request.inputs[0]->shape[0]),
        others_(request.inputs[1]->shape[0]),
        dimensions_(request.inputs[0]->shape[1]),
        row_ns_(others_ * (dimensions_ + 2) / 2),
        parts_(parts_for(count_ * row_ns_, count_)) {}
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    return std::make_unique<Nearest>(request);
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override { return phase == 0 ? 1 : static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return count_ * row_ns_ + others_ * dimensions_; }
  int64_t workspace_bytes() const override {
    return 8 * std::max<int64_t>(others_ * dimensions_, 1);
  }
  int64_t scratch_bytes() const override { return 8 * others_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    auto* turned = reinterpret_cast<double*>(args.workspace);
    if (phase == 0) return turn(input_of<float>(args, 1), others_, dimensions_, turned);
    auto* found = reinterpret_cast<double*>(args.scratch);
    const Range rows = part_of(count_, parts_, task);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      distances(input_of<float>(args, 0) + i * dimensions_, turned, others_, dimensions_, found);
      buffer_of<int32_t>(args, 4)[i] = best(args, i, found);
    }
  }

 private:
  int32_t best(const KernelArgs& args, int64_t i, const double* found) const {
    const int32_t* of_x = input_of<int32_t>(args, 2);
    const int32_t* of_y = input_of<int32_t>(args, 3);
    int64_t best = -1;
    double least = kFar;
    for (int64_t j = 0; j < others_; ++j) {
      if (of_x && of_y[j] != of_x[i]) continue;
      if (best >= 0 && !(found[j] < least)) continue;
      best = j;
      least = found[j];
    }
    if (best >= 0) return static_cast<int32_t>(best);
    throw support::UserError(support::str("[nearest_points] batch ", of_x[i], " of row ", i,
                                          " of x has no row in y. Every batch of x must occur in ",
                                          "y."));
  }

  int64_t count_, others_, dimensions_, row_ns_, parts_;
};

// A task processes one group.
class Farthest final : public BoundKernel {
 public:
  explicit Farthest(const KernelRequest& request)
      : dimensions_(request.inputs[0]->shape[1]),
        borders_(request.attr<ir::Ints>("borders")),
        counts_(request.attr<ir::Ints>("counts")) {
    for (size_t g = 0; g < counts_.size(); ++g) {
      const int64_t size = borders_[g + 1] - borders_[g];
      largest_ = std::max(largest_, size);
      firsts_.push_back(g == 0 ? 0 : firsts_[g - 1] + counts_[g - 1]);
      ns_ += counts_[g] * size * (dimensions_ + 2) / 2;
    }
  }
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    return std::make_unique<Farthest>(request);
  }
  int tasks(int) const override { return static_cast<int>(counts_.size()); }
  int64_t estimated_ns() const override { return ns_; }
  int64_t scratch_bytes() const override { return 8 * largest_ * (dimensions_ + 2); }

  void run(const KernelArgs& args, int, int task) const override {
    const auto group = static_cast<size_t>(task);
    const int64_t size = borders_[group + 1] - borders_[group], count = counts_[group];
    const float* points = input_of<float>(args, 0) + borders_[group] * dimensions_;
    auto* nearest = reinterpret_cast<double*>(args.scratch);  // distances from the chosen points
    double *found = nearest + size, *turned = found + size;
    turn(points, size, dimensions_, turned);
    std::fill(nearest, found, kFar);
    int64_t next = input_of<int32_t>(args, 1)[group];
    if (count > 0 && (next < 0 || next >= size)) {
      throw support::UserError(support::str("[farthest_points] start ", next, " of group ", group,
                                            " is not in [0, ", size, "). Correct the starts."));
    }
    for (int64_t k = 0; k < count; ++k) {
      buffer_of<int32_t>(args, 2)[firsts_[group] + k] =
          static_cast<int32_t>(borders_[group] + next);
      distances(points + next * dimensions_, turned, size, dimensions_, found);
      for (int64_t i = 0; i < size; ++i) nearest[i] = std::min(nearest[i], found[i]);
      next = std::max_element(nearest, nearest + size) - nearest;
    }
  }

 private:
  int64_t dimensions_, largest_ = 0, ns_ = 0;
  ir::Ints borders_, counts_, firsts_;  // of the results of each group
};

// A task processes one sequence.
class BeamSearch final : public BoundKernel {
 public:
  explicit BeamSearch(const KernelRequest& request)
      : time_(request.inputs[0]->shape[0]),
        batch_(request.inputs[0]->shape[1]),
        classes_(request.inputs[0]->shape[2]),
        blank_(request.attr<int64_t>("blank")),
        width_(request.attr<int64_t>("beam_width")),
        count_(request.attr<int64_t>("top_paths")) {}
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    return std::make_unique<BeamSearch>(request);
  }
  int tasks(int) const override { return static_cast<int>(batch_); }
  int64_t estimated_ns() const override { return 40 * time_ * batch_ * classes_ * width_; }
  int64_t scratch_bytes() const override { return 8 * classes_; }

  void run(const KernelArgs& args, int, int b) const override {
    const int64_t length = input_of<int32_t>(args, 1)[b];
    if (length < 0 || length > time_) {
      throw support::UserError(support::str("[ctc_beam_search] length ", length, " of sequence ", b,
                                            " is not in [0, ", time_, "]. Correct the lengths."));
    }
    reference::Beam beam(classes_, blank_, width_);
    auto* now = reinterpret_cast<double*>(args.scratch);
    for (int64_t t = 0; t < length; ++t) {
      const float* scores = input_of<float>(args, 0) + (t * batch_ + b) * classes_;
      std::copy(scores, scores + classes_, now);
      beam.advance(now);
    }
    auto* found = buffer_of<float>(args, 2);
    auto* lengths = buffer_of<int32_t>(args, 3);
    auto* paths = buffer_of<int32_t>(args, 4);
    const auto best = beam.paths(static_cast<size_t>(count_));
    for (int64_t k = 0; k < count_; ++k) {
      const bool exists = k < std::ssize(best);
      const int64_t place = b * count_ + k;
      const ir::Ints path = exists ? best[k].second : ir::Ints();
      if (found) {
        found[place] = static_cast<float>(exists ? best[k].first : -kFar);
      }
      if (lengths) lengths[place] = static_cast<int32_t>(path.size());
      if (!paths) continue;
      std::fill(paths + place * time_, paths + (place + 1) * time_, static_cast<int32_t>(blank_));
      std::copy(path.begin(), path.end(), paths + place * time_);
    }
  }

 private:
  int64_t time_, batch_, classes_, blank_, width_, count_;
};

}  // namespace

void add_point_kernels(KernelTable& table) {
  table.add({.op = "nearest_points", .bind = bind_floats<Nearest::bind>});
  table.add({.op = "farthest_points", .bind = bind_floats<Farthest::bind>});
  table.add({.op = "ctc_beam_search", .bind = bind_floats<BeamSearch::bind>});
}

}  // namespace poptorch::emulator
