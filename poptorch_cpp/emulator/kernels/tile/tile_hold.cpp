// Decides which registers of half types hold halves instead of floats: then steps convert where
// they read and write, and loads, stores and separate rounding are not needed.
#include <algorithm>

#include "emulator/kernels/tile/tile_steps.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

class Holder {
 public:
  Holder(std::vector<TileStep>& steps, std::vector<Register>& registers,
         const std::vector<bool>& uniform)
      : steps_(steps), registers_(registers) {
    for (size_t r = 0; r < registers.size(); ++r) {
      held_.push_back(ir::is_half(registers[r].dtype) && !registers[r].as_stored && !uniform[r]);
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
      for (int r : step.results) exclude(r);
    }
    for (TileStep& step : steps_) {
      if (step.op == "narrow" && held_[step.results[0]]) round_where_made(step);
    }
    std::erase_if(steps_, [](const TileStep& step) { return step.fn == nullptr; });
    for (TileStep& step : steps_) use(step);
    for (size_t r = 0; r < held_.size(); ++r) registers_[r].as_stored |= held_[r];
  }

 private:
  ir::DType dtype_of(int reg) const { return registers_[reg].dtype; }
  void exclude(int reg) {
    if (reg >= 0) held_[reg] = false;
  }
  Element element(int reg) const {
    return reg >= 0 && held_[reg] ? element_of(dtype_of(reg)) : Element::kFloat;
  }

  // Drops a step that rounds, if the step before it that makes the float can do so.
  void round_where_made(TileStep& rounding) {
    const int wide = rounding.sources[0];
    int64_t readers = 0;
    TileStep* maker = nullptr;
    for (TileStep& step : steps_) {
      readers += std::count(step.sources.begin(), step.sources.end(), wide);
      if (step.results == std::vector{wide}) maker = &step;
    }
    if (!maker || !maker->held_fn || readers != 1) return;
    maker->results[0] = rounding.results[0];
    rounding.fn = nullptr;
  }

  void use(TileStep& step) const {
    if (!step.held_fn) return;
    bool any = false;
    for (size_t k = 0; k < step.sources.size(); ++k) {
      const Element e = element(step.sources[k]);
      any |= e != Element::kFloat;
      if (k < std::size(step.held.sources)) step.held.sources[k] = e;
    }
    step.held.result = element(step.results[0]);
    any |= step.held.result != Element::kFloat;
    if (!any) return;
    step.fn = step.held_fn;
    step.product = {};
    step.text += support::str(" in halves");
  }

  std::vector<TileStep>& steps_;
  std::vector<Register>& registers_;
  std::vector<bool> held_;
};

}  // namespace

void copy_halves(const MicroArgs& a, int64_t n) {
  std::copy_n(a.in<uint16_t>(0), n, a.out<uint16_t>());
}

void hold_halves(std::vector<TileStep>& steps, std::vector<Register>& registers,
                 const std::vector<bool>& uniform) {
  Holder(steps, registers, uniform).run();
}

}  // namespace poptorch::emulator
