// Recognises the tile programs that kernels apply to sums in registers.
#include <algorithm>

#include "emulator/kernels/tile/tile_planned.hpp"

namespace poptorch::emulator {
namespace {

// Reads the steps of a program in the order of an ending: scale_shift, add, clamp or relu.
class EndingReader {
 public:
  EndingReader(const std::vector<TileBuffer>& inputs, const std::vector<Register>& registers)
      : inputs_(inputs), registers_(registers), value_(inputs[0].reg), dtype_(inputs[0].dtype) {
    form_.element = element_of(dtype_);
  }

  // Returns whether the step is the next part, applied to the value so far alone, or rounds it.
  bool take(const TileStep& step) {
    if (step.results.size() != 1 || step.rounding) return false;
    if (registers_[step.results[0]].dtype != dtype_) return false;
    if (std::count(step.sources.begin(), step.sources.end(), value_) != 1) return false;
    if (step.op == "narrow") {
      rounded_ = true;
    } else {
      if (!rounded_) return false;
      if (!take_scale(step) && !take_sum(step) && !take_limits(step)) return false;
      const bool in_step = step.held.result != Held::kWord;
      rounded_ = dtype_ == ir::DType::kF32 || in_step || next_ == kNone;  // limits are of halves
    }
    value_ = step.results[0];
    return true;
  }
  int value() const { return value_; }
  const EndingForm& form() const { return form_; }

 private:
  enum Part { kScale, kSum, kLimits, kNone };

  bool comes(Part part) {
    if (part < next_) return false;
    next_ = static_cast<Part>(part + 1);
    return true;
  }
  // Returns the number of the input in this register; -1: not one, or of another type.
  int input_of(int reg, ir::DType dtype) const {
    for (size_t i = 1; i < inputs_.size(); ++i) {
      if (inputs_[i].reg == reg && inputs_[i].dtype == dtype) return static_cast<int>(i);
    }
    return -1;
  }
  bool take_scale(const TileStep& step) {
    if (step.op != "scale_shift" || step.sources[0] != value_) return false;
    form_.scale = input_of(step.sources[1], ir::DType::kF32);
    form_.shift = input_of(step.sources[2], ir::DType::kF32);
    if (form_.scale < 0 || form_.shift < 0) return false;
    return inputs_[form_.scale].row && inputs_[form_.shift].row && comes(kScale);
  }
  bool take_sum(const TileStep& step) {
    if (step.op != "add") return false;
    form_.added = input_of(step.sources[step.sources[0] == value_ ? 1 : 0], dtype_);
    return form_.added > 0 && inputs_[form_.added].dense && comes(kSum);
  }
  bool take_limits(const TileStep& step) {
    if (step.op != "relu" && step.op != "clamp") return false;
    const bool relu = step.op == "relu";
    form_.low = relu ? 0.0f : static_cast<float>(step.immediates[0]);
    form_.high = relu ? INFINITY : static_cast<float>(step.immediates[1]);
    return comes(kLimits);
  }

  const std::vector<TileBuffer>& inputs_;
  const std::vector<Register>& registers_;
  int value_;
  ir::DType dtype_;
  bool rounded_ = true;  // the value, to a type of halves
  Part next_ = kScale;
  EndingForm form_;
};

}  // namespace

std::optional<EndingForm> PlannedProgram::find_ending() const {
  if (inputs_.empty() || outputs_.size() != 1 || instructions_.empty()) return std::nullopt;
  const ir::DType dtype = inputs_[0].dtype;
  if (dtype != ir::DType::kF32 && !ir::is_half(dtype)) return std::nullopt;
  const auto is_plain = [&](const TileBuffer& b) { return b.dtype == dtype && b.dense; };
  if (!is_plain(inputs_[0]) || !is_plain(outputs_[0])) return std::nullopt;
  EndingReader reader(inputs_, registers_);
  for (const TileStep& step : instructions_) {
    if (!reader.take(step)) return std::nullopt;
  }
  if (reader.value() != outputs_[0].reg) return std::nullopt;
  return reader.form();
}

}  // namespace poptorch::emulator
