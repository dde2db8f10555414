#include "emulator/run/regions.hpp"

#include <utility>

namespace poptorch::emulator {

OpenRegions::~OpenRegions() {
  for (; !open_.empty(); open_.pop_back()) observer_.leave(open_.back());
}

void OpenRegions::change_to(int32_t region) {
  if (open_.empty()) open_.push_back(observer_.enter(machine_));
  // Closes regions up to the innermost one that contains both, which stays open.
  int32_t from = at_, to = region;
  const auto depth = [&](int32_t r) { return r < 0 ? -1 : regions_[r].depth; };
  while (from != to) {
    if (depth(from) >= depth(to)) {
      observer_.leave(open_.back());
      open_.pop_back();
      from = regions_[from].parent;
    } else {
      to = regions_[to].parent;
    }
  }
  at_ = from;
  enter(region);
}

void OpenRegions::enter(int32_t region) {
  if (region == at_) return;
  const CodeRegion& entered = regions_[region];
  enter(entered.parent);
  open_.push_back(observer_.enter(entered.name));
  at_ = region;
}

void* HelpedRegion::begin() {
  void* adopted = observer_.adopt(context_);
  return new std::pair(adopted, name_ ? observer_.enter(*name_) : nullptr);
}

void HelpedRegion::end(void* begun) {
  auto* both = static_cast<std::pair<void*, void*>*>(begun);
  if (both->second) observer_.leave(both->second);
  observer_.release(both->first);
  delete both;
}

}  // namespace poptorch::emulator
