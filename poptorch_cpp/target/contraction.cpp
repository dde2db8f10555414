// A closed search: the parts of outputs and inputs are whole blocks of the matrix unit, and the
// rows take the tiles that remain.
#include "target/contraction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

namespace poptorch::target {
namespace {

constexpr double kWorkers = 6;
constexpr double kHalfInputs = 16, kFloatInputs = 8;  // of a block of the matrix unit
constexpr double kHalfCycles = 4, kFloatCycles = 8;   // of a row of a block

double quotient(double a, double b) { return std::ceil(a / b); }

// The rows of one tile, the number of tiles that have some, and the elements of the rows' operand
// that it needs for each channel.
struct TileRows {
  double parts = 1, count = 1, inputs = 1;
  double calls = 1;  // rows of an image in a worker
};

class Search {
 public:
  Search(const Device& device, const Contraction& shape, const Constants& constants)
      : shape_(shape),
        k_(constants),
        mk1_(device.version == 1),
        kernel_(shape.taps_y * shape.taps_x > 1),
        block_inputs_(shape.half ? kHalfInputs : kFloatInputs),
        block_outputs_(device.matrix_outputs),
        element_(shape.half ? 2 : 4),
        tiles_(static_cast<double>(device.tiles - shape.io_tiles)) {}

  ContractionPlan run() {
    divide();
    rearrange();
    return best_;
  }

 private:
  // Adds the change of the operands' layout. It moves an element per tile and cycle, besides its
  // exchange.
  void rearrange() {
    if (shape_.rearranged == 0) return;
    const double elements = static_cast<double>(shape_.rearranged) / tiles_;
    best_.terms.exchange += elements * (1 + element_ / k_.exchange_rate);
    best_.terms.vertex += k_.launch;
    best_.terms.sync += k_.sync;
    ++best_.steps;
  }

  void divide() {
    const auto groups = static_cast<double>(shape_.groups);
    group_parts_ = std::min<double>(groups, tiles_);
    groups_ = quotient(groups, group_parts_);
    group_parts_ = quotient(groups, groups_);
    const double tiles = std::floor(tiles_ / group_parts_);
    const double outputs = quotient(static_cast<double>(shape_.outer), block_outputs_);
    const double inputs = quotient(static_cast<double>(shape_.inner), block_inputs_);
    double last_outputs = 0;
    for (double n = 1; n <= std::min(outputs, tiles); n = next(n, outputs)) {
      const double out = quotient(outputs, n);
      if (out == last_outputs) continue;
      last_outputs = out;
      double last_inputs = 0;
      for (double k = 1; k <= inputs && k * n <= tiles; k = next(k, inputs)) {
        const double in = quotient(inputs, k);
        if (in == last_inputs) continue;
        last_inputs = in;
        evaluate(n, k, 1, out, in, std::floor(tiles / (n * k)));
        const auto taps = static_cast<double>(shape_.taps_y);
        const double rows = std::floor(std::floor(tiles / (n * k)) / taps);
        if (taps > 1 && rows >= 1) evaluate(n, k, taps, out, in, rows);
      }
    }
  }

  // Returns the smallest number of parts with smaller parts than `parts` has.
  static double next(double parts, double all) {
    const double size = quotient(all, parts);
    return size <= 1 ? all + 1 : std::max(parts + 1, quotient(all, size - 1));
  }

  TileRows rows_of(double parts, double tap_parts) const {
    const auto images = static_cast<double>(shape_.batch * shape_.height);
    const auto width = static_cast<double>(shape_.width);
    TileRows rows;
    if (!kernel_) {
      rows.count = quotient(images * width, parts);
      rows.parts = quotient(images * width, rows.count);
      rows.inputs = rows.count / static_cast<double>(shape_.reuse);
      return rows;
    }
    const double down = std::min(parts, images);
    const double across = std::clamp(std::floor(parts / down), 1.0, width);
    const double high = quotient(images, down), wide = quotient(width, across);
    const auto stride = static_cast<double>(shape_.stride);
    const double halo_y = static_cast<double>(shape_.taps_y) / tap_parts - stride;
    const double halo_x = static_cast<double>(shape_.taps_x) - stride;
    const bool whole = high >= static_cast<double>(shape_.height);
    rows.parts = quotient(images, high) * quotient(width, wide);
    rows.count = high * wide;
    rows.inputs = (high * stride + (whole ? 0 : std::max(halo_y, 0.0))) *
                  (wide * stride + (across > 1 ? std::max(halo_x, 0.0) : 0));
    const double in_worker = quotient(rows.count, kWorkers);
    rows.calls = std::max(1.0, quotient(high * quotient(wide, in_worker), kWorkers));
    return rows;
  }

  // Returns the cycles of a block for the rows of a tile: those of the multiplications, and others.
  std::pair<double, double> block_cycles(const TileRows& rows) const {
    const double cycles = shape_.half ? kHalfCycles : kFloatCycles;
    const double turns =
        quotient(rows.count, kWorkers) * kWorkers * cycles * (mk1_ ? k_.position_mk1 : 1);
    const double load =
        block_inputs_ * block_outputs_ * element_ / (mk1_ ? k_.weight_rate_mk1 : k_.weight_rate);
    if (kernel_) {
      const double start = mk1_ ? k_.kernel_block_mk1 : k_.kernel_block;
      return {turns * (mk1_ ? k_.kernel_position_mk1 : 1),
              load + start + kWorkers * k_.kernel_row * rows.calls};
    }
    if (mk1_) return {turns, load + k_.block_mk1};
    const double floor = shape_.half ? k_.matrix_floor_half : k_.matrix_floor_float;
    return {turns, load + std::max(0.0, floor - turns)};
  }

  // The bytes of both operands that a tile receives, and the cycles of that.
  struct Received {
    double rows = 0, weights = 0, cycles = 0;
  };

  Received operand_exchange(double n, double taps, const TileRows& rows, double in,
                            double out) const {
    const double channels = std::min(in * block_inputs_, static_cast<double>(shape_.inner));
    const double columns = std::min(out * block_outputs_, static_cast<double>(shape_.outer));
    const double kernel = static_cast<double>(shape_.taps_y * shape_.taps_x) / taps;
    const double row = groups_ * channels * element_;
    const auto stride = static_cast<double>(shape_.stride * shape_.stride);
    const double resident = (kernel_ ? rows.count * stride : rows.inputs) * row / (n * taps);
    const double of_rows = std::max(0.0, rows.inputs * row - resident);
    const double of_weights = row * columns * kernel * (1 - 1 / rows.parts);
    // Tiles of a pair receive one of the operands together.
    const double paired = std::max(n > 1 ? of_rows : 0, rows.parts > 1 ? of_weights : 0);
    const double bytes = of_rows + of_weights - paired + paired / k_.paired_exchange;
    return {of_rows, of_weights, bytes / k_.exchange_rate};
  }

  // Divides a tile's work into rounds whose operands and partial sums fit. The smaller operand is
  // received again in each round, unless it takes less than half of the memory.
  void limit_memory(const Received& received, double partials, ContractionPlan& plan) const {
    const double bytes = received.rows + received.weights + partials;
    const auto limit = static_cast<double>(shape_.tile_memory);
    plan.tile_bytes = static_cast<int64_t>(bytes);
    if (limit <= 0 || bytes <= limit) return;
    const double smaller = std::min(received.rows, received.weights);
    const bool stays = smaller <= limit / 2;
    const double rounds =
        stays ? quotient(bytes - smaller, limit - smaller) : quotient(bytes, limit);
    const double more = rounds - 1;
    if (!stays) plan.terms.exchange += more * smaller / k_.exchange_rate;
    plan.terms.vertex += more * static_cast<double>(plan.steps) * k_.launch;
    plan.terms.sync += more * static_cast<double>(plan.steps) * k_.sync;
    plan.steps *= static_cast<int64_t>(rounds);
    plan.rounds = static_cast<int64_t>(rounds);
    plan.tile_bytes =
        static_cast<int64_t>(stays ? smaller + (bytes - smaller) / rounds : bytes / rounds);
  }

  void evaluate(double n, double k, double taps, double out, double in, double row_parts) {
    const TileRows rows = rows_of(row_parts, taps);
    const auto [arithmetic, other] = block_cycles(rows);
    const double blocks =
        out * in * groups_ * static_cast<double>(shape_.taps_y * shape_.taps_x) / taps;
    const double columns = std::min(out * block_outputs_, static_cast<double>(shape_.outer));
    const double results = groups_ * rows.count * columns;
    Terms terms{.arithmetic = blocks * arithmetic,
                .vertex = blocks * other + 2 * k_.launch,
                .sync = 2 * k_.sync};
    const Received received = operand_exchange(n, taps, rows, in, out);
    terms.exchange = received.cycles;
    const double sums = k * taps;
    const bool converts = shape_.partial_bytes > element_;
    const double partials = results * shape_.partial_bytes * (sums > 1 ? 2 : converts ? 1 : 0);
    if (sums > 1) {
      const double bytes = results * shape_.partial_bytes;
      terms.exchange += bytes * (sums - 1) / sums / k_.exchange_rate;
      terms.vertex += bytes / k_.sum_rate + k_.launch;
      terms.sync += k_.sync;
    }
    if (found_ && terms.total() >= best_.terms.total()) return;
    ContractionPlan plan{.groups = static_cast<int64_t>(group_parts_),
                         .rows = static_cast<int64_t>(rows.parts),
                         .inner = static_cast<int64_t>(sums),
                         .outer = static_cast<int64_t>(n),
                         .steps = sums > 1 ? 3 : 2,
                         .terms = terms};
    limit_memory(received, partials, plan);
    if (found_ && plan.terms.total() >= best_.terms.total()) return;
    found_ = true;
    best_ = plan;
  }

  const Contraction& shape_;
  const Constants& k_;
  bool mk1_, kernel_, found_ = false;
  double block_inputs_, block_outputs_, element_, tiles_;
  double group_parts_ = 1, groups_ = 1;
  ContractionPlan best_;
};

constexpr size_t kMostPlans = 1 << 14;

struct RememberedPlans {
  std::mutex mutex;
  std::map<std::tuple<const Device*, std::array<int64_t, 15>>, ContractionPlan> plans;
};

RememberedPlans& remembered_plans() {
  static RememberedPlans plans;
  return plans;
}

}  // namespace

double Contraction::flops() const {
  return 2.0 * static_cast<double>(groups * batch * height * width) *
         static_cast<double>(inner * outer) * static_cast<double>(taps_y * taps_x);
}

ContractionPlan plan_contraction(const Device& device, const Contraction& contraction,
                                 const Constants& constants) {
  if (contraction.flops() == 0) return {};
  return Search(device, contraction, constants).run();
}

ContractionPlan plan_contraction(const Device& device, const Contraction& contraction) {
  auto& [mutex, plans] = remembered_plans();
  const Contraction& c = contraction;
  const std::tuple key{
      &device, std::array<int64_t, 15>{c.groups, c.batch, c.height, c.width, c.inner, c.outer,
                                       c.taps_y, c.taps_x, c.stride, c.reuse, c.rearranged, c.half,
                                       c.partial_bytes, c.io_tiles, c.tile_memory}};
  {
    const std::lock_guard lock(mutex);
    const auto found = plans.find(key);
    if (found != plans.end()) return found->second;
  }
  const ContractionPlan plan = plan_contraction(device, contraction, constants());
  const std::lock_guard lock(mutex);
  if (plans.size() >= kMostPlans) plans.clear();
  plans.emplace(key, plan);
  return plan;
}

void forget_plans() {
  auto& [mutex, plans] = remembered_plans();
  const std::lock_guard lock(mutex);
  plans.clear();
}

}  // namespace poptorch::target
