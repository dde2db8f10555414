// Regions that a run reports to a profiler (support/regions.hpp): forward, backward and update, and
// inside them the modules by path, as the threads pass through them. Each step names its region,
// which is read only if there is an observer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/bound/code_regions.hpp"
#include "emulator/host/pool.hpp"
#include "support/regions.hpp"

namespace poptorch::emulator {

// The open regions of a thread that runs a machine: the machine's region and those of its steps.
class OpenRegions {
 public:
  OpenRegions(support::RegionObserver& observer, const std::vector<CodeRegion>& regions,
              const std::string& machine)
      : observer_(observer), regions_(regions), machine_(machine) {}
  ~OpenRegions();
  OpenRegions(const OpenRegions&) = delete;
  OpenRegions& operator=(const OpenRegions&) = delete;

  void move_to(int32_t region) {
    if (region >= 0 && region != at_) change_to(region);
  }

 private:
  void change_to(int32_t region);
  void enter(int32_t region);

  support::RegionObserver& observer_;
  const std::vector<CodeRegion>& regions_;
  const std::string& machine_;
  int32_t at_ = -1;
  std::vector<void*> open_;  // the machine's, then those from the outermost to at_
};

// Reports the part of a job that a thread other than its owner runs, to the observer of the owner:
// as region `name`, unless `name` is null.
class HelpedRegion final : public HelperScope {
 public:
  HelpedRegion(support::RegionObserver& observer, const void* context, const std::string* name)
      : observer_(observer), context_(context), name_(name) {}
  void* begin() override;
  void end(void* begun) override;

 private:
  support::RegionObserver& observer_;
  const void* context_;
  const std::string* name_;
};

}  // namespace poptorch::emulator
