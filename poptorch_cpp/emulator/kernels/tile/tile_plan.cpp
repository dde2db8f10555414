// Plans tile programs: collapses dimensions, shortens the steps, gives every register a slot.
#include <algorithm>

#include "emulator/kernels/tile/tile_planned.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using ir::DType;
using ir::Shape;
using support::InternalError;

namespace {

// Loads and stores registers that are held as stored.
template <typename T>
void copy(const MicroArgs& a, int64_t n) {
  std::copy_n(a.in<T>(0), n, a.out<T>());
}

}  // namespace

int64_t PlannedProgram::estimated_ns(int64_t elements) const {
  const int64_t moved = static_cast<int64_t>(inputs_.size() + outputs_.size());
  return 40 + elements * (2 * moved + 3 * static_cast<int64_t>(instructions_.size())) / 16;
}

std::string PlannedProgram::text() const {
  std::string out;
  for (const TileBuffer& in : inputs_) {
    out += support::str("%", in.reg, " = load ", in.dtype, " ", ir::shape_text(in.strides), "\n");
  }
  for (const TileStep& step : instructions_) out += step.text + "\n";
  for (const TileBuffer& b : outputs_) {
    out += support::str("store %", b.reg, " ", b.dtype, " ", ir::shape_text(b.strides), "\n");
  }
  return out;
}

bool PlannedProgram::rounds_at_random() const {
  return std::any_of(instructions_.begin(), instructions_.end(),
                     [](const TileStep& step) { return step.rounding.has_value(); });
}

// Merges neighbouring dimensions that every buffer walks as one, and drops those of size 1.
void PlannedProgram::collapse() {
  std::vector<TileBuffer*> all;
  for (TileBuffer& b : inputs_) all.push_back(&b);
  for (TileBuffer& b : outputs_) all.push_back(&b);
  if (!rounds_at_random()) numbers_.strides.clear();
  if (!numbers_.strides.empty()) all.push_back(&numbers_);
  std::vector<Shape> merged(all.size());
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 1) continue;
    bool joins = !sizes_.empty();
    for (size_t b = 0; joins && b < all.size(); ++b) {
      joins = merged[b].back() == all[b]->strides[d] * shape_[d];
    }
    if (joins) {
      sizes_.back() *= shape_[d];
      for (size_t b = 0; b < all.size(); ++b) merged[b].back() = all[b]->strides[d];
    } else {
      sizes_.push_back(shape_[d]);
      for (size_t b = 0; b < all.size(); ++b) merged[b].push_back(all[b]->strides[d]);
    }
  }
  if (sizes_.empty()) {
    sizes_ = {1};
    for (size_t b = 0; b < all.size(); ++b) merged[b] = {b < inputs_.size() ? 0 : 1};
  }
  const Shape dense = ir::row_major_strides(sizes_);
  for (size_t b = 0; b < all.size(); ++b) {
    all[b]->strides = merged[b];
    all[b]->dense = merged[b] == dense;
  }
  if (numbers_.dense) numbers_.strides.clear();
  if (!numbers_.strides.empty()) least_run_ = kLeastNumberedRun;
  if (sizes_.size() > kMaxDims) throw InternalError("[tile program] too many dimensions.");
}

void PlannedProgram::shorten() {
  std::vector<bool> uniform(registers_.size(), false);
  for (const TileBuffer& in : inputs_) {
    uniform[in.reg] =
        std::all_of(in.strides.begin(), in.strides.end(), [](int64_t s) { return s == 0; });
  }
  for (int reg : constants_) uniform[reg] = true;
  std::vector<int> stored;
  for (const TileBuffer& out : outputs_) stored.push_back(out.reg);
  shorten_steps(instructions_, registers_, uniform, stored);
  std::vector<Place> places(registers_.size(), Place::kOther);
  for (int reg : constants_) places[reg] = Place::kOne;
  for (const TileBuffer& in : inputs_) {
    const bool column = in.strides.back() == 0 && sizes_.back() >= least_run_;
    places[in.reg] = uniform[in.reg] || column ? Place::kOne : Place::kMemory;
  }
  for (int reg : stored) places[reg] = places[reg] == Place::kOne ? Place::kOther : Place::kMemory;
  hold_as_stored(instructions_, registers_, places);
  for (size_t o = 0; o < stored.size(); ++o) outputs_[o].reg = stored[o];
}

bool PlannedProgram::is_numbered_in_order() const {
  return numbers_.strides.empty() && ir::element_count(shape_) <= kSameKey;
}

// Returns true for one step with a product form whose tensors are all used in place.
bool PlannedProgram::can_take_product() const {
  if (instructions_.size() != 1 || !instructions_[0].product.run || sizes_.size() != 1)
    return false;
  const TileStep& step = instructions_[0];
  const int own = inputs_[0].reg;
  if (step.rounding && !is_numbered_in_order()) return false;
  if (inputs_[0].uniform || step.sources[step.product.source] != own) return false;
  if (std::count(step.sources.begin(), step.sources.end(), own) != 1) return false;
  auto one_number = [&](int reg) {
    return registers_[reg].first_only || registers_[reg].hyper_parameter;
  };
  auto in_place = [&](const TileBuffer& b) {
    return b.uniform ? one_number(b.reg) : b.direct && b.strides == Shape{1};
  };
  return std::all_of(inputs_.begin(), inputs_.end(), in_place) &&
         std::all_of(outputs_.begin(), outputs_.end(), in_place) &&
         std::all_of(constants_.begin(), constants_.end(), one_number);
}

// Decides which buffers replace registers, and gives every other register a slot.
void PlannedProgram::place() {
  const int steps = static_cast<int>(instructions_.size());
  int roundings = 0;
  for (int s = 0; s < steps; ++s) {
    TileStep& step = instructions_[s];
    for (int r : step.sources) {
      if (r >= 0) registers_[r].last_use = s;
    }
    if (step.rounding) step.rounding->number = roundings++;
  }
  classify_inputs();
  choose_direct_outputs();
  find_rows();
  auto in_place = [&](const TileBuffer& b) {
    const bool one = registers_[b.reg].first_only && (b.uniform || b.column);
    return b.scalar || one || (b.direct && b.strides.back() == 1);
  };
  // An unused result has a slot, which is only a tile long.
  auto stored = [&](int reg) {
    return std::any_of(outputs_.begin(), outputs_.end(),
                       [reg](const TileBuffer& out) { return out.reg == reg; });
  };
  unbounded_ =
      steps == 1 && std::all_of(inputs_.begin(), inputs_.end(), in_place) &&
      std::all_of(outputs_.begin(), outputs_.end(), in_place) &&
      std::all_of(instructions_[0].results.begin(), instructions_[0].results.end(), stored) &&
      std::all_of(constants_.begin(), constants_.end(), [&](int reg) {
        return registers_[reg].hyper_parameter || registers_[reg].first_only;
      });
  const bool numbered = unbounded_ && (!instructions_[0].rounding || is_numbered_in_order());
  runs_in_place_ = numbered && sizes_.back() >= kLeastRun;
  ending_ = find_ending();
  if (!ending_) find_random_ending();
  takes_product_ = !inputs_.empty() && can_take_product();
  assign_slots();
}

// Returns true if the buffer's memory holds elements as its register does.
bool PlannedProgram::is_held_as_in_memory(const TileBuffer& buffer) const {
  return registers_[buffer.reg].as_stored || buffer.dtype == DType::kF32 ||
         buffer.dtype == DType::kI32 || buffer.dtype == DType::kI64;
}

void PlannedProgram::classify_inputs() {
  for (TileBuffer& in : inputs_) {
    in.uniform =
        std::all_of(in.strides.begin(), in.strides.end(), [](int64_t s) { return s == 0; });
    in.scalar = in.uniform && in.dtype == DType::kF64 && registers_[in.reg].hyper_parameter;
    registers_[in.reg].hyper_parameter = in.scalar;
    in.direct = is_held_as_in_memory(in);
    in.column = !in.uniform && in.strides.back() == 0;
    one_run_ |= in.column && registers_[in.reg].first_only;
  }
  for (std::vector<TileBuffer>* buffers : {&inputs_, &outputs_}) {
    for (TileBuffer& buffer : *buffers) {
      if (!registers_[buffer.reg].as_stored) continue;
      buffer.register_bytes = buffer.element_bytes;
      buffer.move = buffer.element_bytes == 1 ? copy<uint8_t> : copy<uint16_t>;
    }
  }
}

// Finds the inputs that repeat, for instance a number for each channel, and those that have a
// number for each of many short rows. run_rows() draws no random numbers.
void PlannedProgram::find_rows() {
  if (sizes_.size() != 2 || rounds_at_random()) return;
  auto repeats = [](const TileBuffer& b) { return b.strides == Shape{0, 1}; };
  const bool short_rows = sizes_[1] < kLeastRun;  // each longer one is a tile
  auto of_rows = [&](const TileBuffer& b) { return short_rows && b.strides == Shape{1, 0}; };
  auto fits = [&](const TileBuffer& b) { return b.uniform || b.dense || repeats(b) || of_rows(b); };
  const bool all =
      std::all_of(inputs_.begin(), inputs_.end(), fits) &&
      std::all_of(outputs_.begin(), outputs_.end(), [](const TileBuffer& b) { return b.dense; });
  if (!all) return;
  row_ = sizes_[1];
  for (TileBuffer& in : inputs_) in.row = repeats(in);
}

void PlannedProgram::choose_direct_outputs() {
  const int steps = static_cast<int>(instructions_.size());
  int last_input_use = -1;
  for (const TileBuffer& in : inputs_) {
    if (!in.uniform) last_input_use = std::max(last_input_use, registers_[in.reg].last_use);
  }
  for (const TileBuffer& out : outputs_) {
    registers_[out.reg].last_use = steps;
    const bool from_input = std::any_of(inputs_.begin(), inputs_.end(),
                                        [&](const TileBuffer& in) { return in.reg == out.reg; });
    if (from_input) last_input_use = steps;
  }
  for (TileBuffer& out : outputs_) {
    // An output may be the memory of an input: it is written only after the last input is read.
    int made = -1;
    for (int s = 0; s < steps; ++s) {
      const auto& results = instructions_[s].results;
      if (std::find(results.begin(), results.end(), out.reg) != results.end()) made = s;
    }
    const bool once = std::count_if(outputs_.begin(), outputs_.end(), [&](const TileBuffer& other) {
                        return other.reg == out.reg;
                      }) == 1;
    out.direct = is_held_as_in_memory(out) && once && made >= 0 && made >= last_input_use;
  }
}

// Slots are reused after the last use of their registers. Inputs and constants live from the start;
// uniform ones and constants are filled once a run.
void PlannedProgram::assign_slots() {
  std::vector<int> free;
  auto take = [&](int reg) {
    if (registers_[reg].slot >= 0) return;
    if (free.empty()) free.push_back(slots_++);
    registers_[reg].slot = free.back();
    free.pop_back();
  };
  std::vector<bool> permanent(registers_.size(), false);
  for (const TileBuffer& in : inputs_) {
    if (in.uniform || in.row || in.column) permanent[in.reg] = true;
    if (!in.scalar) take(in.reg);
  }
  for (int reg : constants_) {
    permanent[reg] = true;
    if (!registers_[reg].hyper_parameter) take(reg);
  }
  for (int s = 0; s < static_cast<int>(instructions_.size()); ++s) {
    for (int r : instructions_[s].results) take(r);
    auto release = [&](int r) {
      if (r < 0 || permanent[r] || registers_[r].last_use > s) return;
      const int slot = registers_[r].slot;
      if (std::find(free.begin(), free.end(), slot) == free.end()) free.push_back(slot);
    };
    for (int r : instructions_[s].sources) release(r);
    for (int r : instructions_[s].results) release(r);
  }
  const bool wide = std::any_of(registers_.begin(), registers_.end(), [](const Register& r) {
    return register_bytes(register_class(r.dtype)) == 8 && !r.hyper_parameter;
  });
  const int64_t element = wide ? 8 : 4, held = slots_ + static_cast<int64_t>(outputs_.size());
  tile_ = kMostTile;
  while (tile_ > kLeastTile && held * element * tile_ > kTileBytes) tile_ /= 2;
  slot_bytes_ = tile_ * element;
}

}  // namespace poptorch::emulator
