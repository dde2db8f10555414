// Decides which registers of half types and of bools hold elements as memory does: then steps
// convert where they read and write, and loads, stores and separate rounding are not needed. Also
// which registers hold one element instead of copies of it.
#include <algorithm>

#include "emulator/kernels/tile/tile_steps.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr RegisterClass kFloats = RegisterClass::kF32;

class Holder {
 public:
  Holder(std::vector<TileStep>& steps, std::vector<Register>& registers,
         const std::vector<Place>& places)
      : steps_(steps), registers_(registers), places_(places) {
    for (size_t r = 0; r < registers.size(); ++r) {
      const ir::DType dtype = registers[r].dtype;
      const bool one = places[r] == Place::kOne, floats = register_class(dtype) == kFloats;
      const bool bools = dtype == ir::DType::kBool && places[r] == Place::kMemory;
      held_.push_back(one ? floats : (ir::is_half(dtype) || bools) && !registers[r].as_stored);
      one_.push_back(one);
    }
  }

  void run() {
    for (TileStep& step : steps_) {
      if (step.op != "narrow" || !ir::is_half(dtype_of(step.results[0]))) continue;
      step.held_fn = copy_held_fn();
    }
    for (const TileStep& step : steps_) {
      if (step.held_fn) continue;
      for (int r : step.sources) exclude(r);
      if (step.only_rounds) continue;  // it can store halves
      for (int r : step.results) exclude(r);
    }
    for (TileStep& step : steps_) {
      if (step.op == "narrow" && held_[step.results[0]]) round_where_made(step);
      if (step.only_rounds) round_at_random(step);
    }
    std::erase_if(steps_, [](const TileStep& step) { return step.fn == nullptr; });
    load_as_words();
    for (TileStep& step : steps_) use(step);
    for (size_t r = 0; r < held_.size(); ++r) {
      (one_[r] ? registers_[r].first_only : registers_[r].as_stored) |= held_[r];
    }
  }

 private:
  ir::DType dtype_of(int reg) const { return registers_[reg].dtype; }
  void exclude(int reg) {
    if (reg >= 0) held_[reg] = false;
  }
  Held form_of(int reg) const {
    if (reg < 0 || !held_[reg]) return Held::kWord;
    return one_[reg] ? Held::kOne : stored_form(reg);
  }
  Held stored_form(int reg) const {
    return dtype_of(reg) == ir::DType::kF16    ? Held::kHalf
           : dtype_of(reg) == ir::DType::kBF16 ? Held::kBfloat
                                               : Held::kBool;
  }

  // Stores halves if their register holds them, where the float is made if that step can do so.
  void round_at_random(TileStep& rounding) {
    const int result = rounding.results[0];
    if (!held_[result] && !registers_[result].as_stored) return;
    rounding.fn = rounding.halves->form[dtype_of(result) == ir::DType::kBF16][0].fn;
    TileStep* maker = only_maker(rounding.sources[0]);
    if (!maker || !maker->random_fn) return;
    // Steps between them may read what this one overwrites.
    if (std::any_of(maker + 1, &rounding, [](const TileStep& s) { return s.fn != nullptr; }))
      return;
    maker->results[0] = result;
    maker->rounding = rounding.rounding;
    maker->takes_index_step = true;
    rounding.fn = nullptr;
  }

  // Drops a step that rounds, if the step before it that makes the float can do so.
  void round_where_made(TileStep& rounding) {
    TileStep* maker = only_maker(rounding.sources[0]);
    if (!maker || !maker->held_fn) return;
    maker->results[0] = rounding.results[0];
    rounding.fn = nullptr;
  }

  // Converts inputs of halves once, as they are loaded, where each step that reads them would
  // convert them for itself: steps with operands or results of other forms.
  void load_as_words() {
    std::vector<int> readers(held_.size(), 0), same(held_.size(), 0);
    std::vector<bool> made(held_.size(), false);
    for (const TileStep& step : steps_) {
      for (int r : step.results) made[r] = true;
      for (int r : step.sources) {
        if (r < 0) continue;
        ++readers[r];
        same[r] += converts(step) || has_one_form(step, form_of(r));
      }
    }
    for (size_t r = 0; r < held_.size(); ++r) {
      const bool input = places_[r] == Place::kMemory && !made[r];
      const bool half = ir::is_half(registers_[r].dtype);
      if (input && half && readers[r] > 0 && same[r] == 0) held_[r] = false;
    }
  }
  static bool converts(const TileStep& step) { return step.op == "narrow" || step.op == "cast"; }
  // Returns whether the operands of the step, but for single elements, and its result are in
  // `form`.
  bool has_one_form(const TileStep& step, Held form) const {
    const bool at_random = step.rounding.has_value();
    const int result = step.results[0];
    if ((at_random ? stored_form(result) : form_of(result)) != form) return false;
    return std::all_of(step.sources.begin(), step.sources.end(), [&](int r) {
      const Held source = form_of(r);
      return r < 0 || source == form || source == Held::kOne || source == Held::kBool;
    });
  }

  // Returns the step that makes a register with a single reader; nullptr for other registers.
  TileStep* only_maker(int wide) {
    int64_t readers = 0;
    TileStep* maker = nullptr;
    for (TileStep& step : steps_) {
      readers += std::count(step.sources.begin(), step.sources.end(), wide);
      if (step.results == std::vector{wide}) maker = &step;
    }
    return readers == 1 && places_[wide] != Place::kMemory ? maker : nullptr;
  }

  void use(TileStep& step) const {
    if (!step.held_fn) return;
    bool any = false;
    for (size_t k = 0; k < step.sources.size(); ++k) {
      const Held form = form_of(step.sources[k]);
      any |= form != Held::kWord;
      if (k < std::size(step.held.sources)) step.held.sources[k] = form;
    }
    const bool at_random = step.rounding.has_value();
    step.held.result = at_random ? stored_form(step.results[0]) : form_of(step.results[0]);
    any |= step.held.result != Held::kWord;
    if (!any) return;
    step.fn = at_random ? step.random_fn : step.held_fn;
    step.product = {};
    step.text += at_random ? " at random" : " as stored";
  }

  std::vector<TileStep>& steps_;
  std::vector<Register>& registers_;
  const std::vector<Place>& places_;
  std::vector<bool> held_;  // of each register: not as words
  std::vector<bool> one_;   // a single element
};

}  // namespace

void hold_as_stored(std::vector<TileStep>& steps, std::vector<Register>& registers,
                    const std::vector<Place>& places) {
  Holder(steps, registers, places).run();
}

}  // namespace poptorch::emulator
