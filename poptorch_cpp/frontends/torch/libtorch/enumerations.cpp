#include "frontends/torch/libtorch/enumerations.hpp"

#include <initializer_list>
#include <utility>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

// Returns the second value of the pair whose first is `value`.
template <typename Public, typename Core>
Core counterpart(Public value, std::initializer_list<std::pair<Public, Core>> table) {
  for (const auto& [from, to] : table) {
    if (from == value) return to;
  }
  throw support::InternalError(support::str("[options] value ", static_cast<int>(value),
                                            " of an enumeration has no counterpart."));
}

}  // namespace

ir::OutputMode core_value(OutputMode mode) {
  using Core = ir::OutputMode;
  return counterpart<OutputMode, Core>(mode, {{OutputMode::Final, Core::kFinal},
                                              {OutputMode::EveryN, Core::kEveryN},
                                              {OutputMode::All, Core::kAll},
                                              {OutputMode::Sum, Core::kSum}});
}

ir::Liveness core_value(Liveness liveness) {
  using Core = ir::Liveness;
  return counterpart<Liveness, Core>(
      liveness, {{Liveness::AlwaysLive, Core::kAlwaysLive},
                 {Liveness::OffChipAfterFwd, Core::kOffChipAfterFwd},
                 {Liveness::OffChipAfterFwdNoOverlap, Core::kOffChipAfterFwdNoOverlap},
                 {Liveness::OffChipAfterEachPhase, Core::kOffChipAfterEachPhase}});
}

ir::CommGroup core_value(CommGroupType type) {
  using Core = ir::CommGroup;
  return counterpart<CommGroupType, Core>(type, {{CommGroupType::All, Core::kAll},
                                                 {CommGroupType::Consecutive, Core::kConsecutive},
                                                 {CommGroupType::Orthogonal, Core::kOrthogonal},
                                                 {CommGroupType::NoGrouping, Core::kNoGrouping}});
}

account::MemoryLimit core_value(MemoryLimit limit) {
  using Core = account::MemoryLimit;
  return counterpart<MemoryLimit, Core>(limit, {{MemoryLimit::Warn, Core::kWarn},
                                                {MemoryLimit::Error, Core::kError},
                                                {MemoryLimit::Off, Core::kOff}});
}

}  // namespace poptorch
