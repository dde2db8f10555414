// Recognises the tile programs on floats that round at random to a half type after each part of an
// ending. Kernels apply them to sums in registers.
#include <algorithm>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "emulator/kernels/tile/tile_planned.hpp"

namespace poptorch::emulator {
namespace {

using Part = EndingRounding::Part;

// Reads the steps of a program in the order of an ending. A rounding follows the sums, scale_shift
// and add; clamp or relu come last.
class RandomEndingReader {
 public:
  RandomEndingReader(const std::vector<TileBuffer>& inputs, const std::vector<Register>& registers,
                     ir::DType half)
      : inputs_(inputs), registers_(registers), half_(half), value_(inputs[0].reg) {
    form_.element = element_of(half);
    form_.at_random = true;
    for (size_t i = 1; i < inputs_.size(); ++i) same_as_.emplace_back(inputs_[i].reg, i);
  }

  bool take(const TileStep& step) {
    if (step.results.size() != 1) return false;
    if (step.op == "cast" && step.sources[0] != value_) return take_copy(step);
    if (std::count(step.sources.begin(), step.sources.end(), value_) != 1) return false;
    const bool rounds_alone = step.op == "stochastic_cast";
    if (!rounds_alone && !take_part(step)) return false;
    if (step.rounding && !take_rounding(step)) return false;
    value_ = step.results[0];
    return true;
  }
  bool ends_in(int reg) const { return value_ == reg && !unrounded_; }
  const EndingForm& form() const { return form_; }
  const std::optional<RandomRounding>* roundings() const { return roundings_; }

 private:
  bool comes(Part part) {
    if (unrounded_ || limited_ || part <= last_) return false;
    last_ = part;
    unrounded_ = true;
    return true;
  }
  // Returns the number of the input with the values of a register, if it has this dtype; else -1.
  int input_of(int reg, ir::DType dtype) const {
    for (const auto& [known, input] : same_as_) {
      if (known == reg && inputs_[input].dtype == dtype) return static_cast<int>(input);
    }
    return -1;
  }
  bool is_row(int input) const {
    const ir::Shape& strides = inputs_[input].strides;
    return strides.back() == 1 && std::all_of(strides.begin(), strides.end() - 1,
                                              [](int64_t stride) { return stride == 0; });
  }
  // A copy of an input as floats.
  bool take_copy(const TileStep& step) {
    const int input = input_of(step.sources[0], half_);
    if (input < 0) return false;
    same_as_.emplace_back(step.results[0], input);
    return true;
  }
  bool take_rounding(const TileStep& step) {
    if (!unrounded_) return false;
    if (registers_[step.results[0]].dtype != half_) return false;
    unrounded_ = false;
    roundings_[last_] = step.rounding;
    return true;
  }
  bool take_part(const TileStep& step) {
    if (unrounded_) return false;
    const ir::DType made = registers_[step.results[0]].dtype;
    if (made != ir::DType::kF32 && made != half_) return false;
    if (step.op == "cast") return true;
    if (step.op == "narrow") return limited_;
    if (step.op == "relu" || step.op == "clamp") return take_limits(step);
    if (made != ir::DType::kF32 && !step.rounding) return false;
    if (step.op == "scale_shift") return take_scale(step);
    if (step.op == "add") return take_sum(step);
    return false;
  }
  bool take_scale(const TileStep& step) {
    if (step.sources[0] != value_) return false;
    form_.scale = input_of(step.sources[1], ir::DType::kF32);
    form_.shift = input_of(step.sources[2], ir::DType::kF32);
    return form_.scale >= 0 && form_.shift >= 0 && is_row(form_.scale) && is_row(form_.shift) &&
           comes(Part::kScaled);
  }
  bool take_sum(const TileStep& step) {
    form_.added = input_of(step.sources[step.sources[0] == value_ ? 1 : 0], half_);
    return form_.added >= 0 && inputs_[form_.added].dense && comes(Part::kAdded);
  }
  // No rounding at random may follow: it would round limits that are not halves.
  bool take_limits(const TileStep& step) {
    const bool relu = step.op == "relu";
    if (limited_) return false;
    form_.low = relu ? 0.0f : static_cast<float>(step.immediates[0]);
    form_.high = relu ? INFINITY : static_cast<float>(step.immediates[1]);
    limited_ = true;
    return true;
  }

  const std::vector<TileBuffer>& inputs_;
  const std::vector<Register>& registers_;
  ir::DType half_;
  int value_;
  std::vector<std::pair<int, size_t>> same_as_;  // a register, and the input whose values it has
  Part last_ = Part::kSum;
  bool unrounded_ = true, limited_ = false;
  EndingForm form_;
  std::optional<RandomRounding> roundings_[3];
};

// Returns the pixels of an image if numbers run channel by channel through images of pixels, which
// have their channels together; 0: they do not.
int64_t image_of(const ir::Shape& numbers, const ir::Shape& sizes) {
  if (numbers.empty()) return 1;
  const size_t dims = sizes.size();
  const int64_t channels = sizes.back(), image = numbers.back();
  if (dims < 2 || dims > 3 || sizes[dims - 2] != image || numbers[dims - 2] != 1) return 0;
  return dims == 3 && numbers[0] != image * channels ? 0 : image;
}

}  // namespace

void PlannedProgram::find_random_ending() {
  if (inputs_.empty() || outputs_.size() != 1 || ir::element_count(shape_) > kSameKey) return;
  const ir::DType half = outputs_[0].dtype;
  ending_image_ = image_of(numbers_.strides, sizes_);
  if (inputs_[0].dtype != ir::DType::kF32 || !ir::is_half(half) || ending_image_ == 0) return;
  if (!inputs_[0].dense || !outputs_[0].dense) return;
  RandomEndingReader reader(inputs_, registers_, half);
  for (const TileStep& step : instructions_) {
    if (!reader.take(step)) return;
  }
  if (!reader.ends_in(outputs_[0].reg)) return;
  ending_ = reader.form();
  std::copy_n(reader.roundings(), 3, ending_roundings_);
}

EndingRounding PlannedProgram::ending_rounding(const RandomKey& random) const {
  EndingRounding rounding{.at_random = ending_->at_random, .image = ending_image_};
  for (int part = 0; part < 3; ++part) {
    if (!ending_roundings_[part]) continue;
    const reference::RoundingBits bits = bits_of(*ending_roundings_[part], random);
    rounding.keys[part][0] = bits.first(0), rounding.keys[part][1] = bits.second();
  }
  return rounding;
}

// A tile has few rows, so that steps would need a hash for almost every element.
bool PlannedProgram::run_as_ending(std::byte* const* buffers, const TileBlock& block,
                                   const RandomKey& random) const {
  const int64_t columns = sizes_.back(), row = block.first / columns,
                column = block.first % columns;
  int64_t rows = block.rows, width = block.cols;
  int64_t step = block.source ? block.source_step : columns;
  if (rows == 1 && column == 0 && width % columns == 0) {
    rows = width / columns, width = step = columns;
  } else if ((rows > 1 && block.row_step != columns) || column + width > columns) {
    return false;
  }
  HalfEnding whole = ending_in<HalfEnding>(*ending_, buffers, inputs());
  whole.row_step = columns;
  whole.element = ending_->element;
  whole.rounding = ending_rounding(random);
  const auto* sums = reinterpret_cast<const float*>(block.source ? block.source : buffers[0]);
  kernel_set().half_blocks.end(whole.from(row, column), block.source ? sums : sums + block.first,
                               step, rows, width);
  return true;
}

}  // namespace poptorch::emulator
