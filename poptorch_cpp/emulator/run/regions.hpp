// What a run shows to whoever profiles it (support/regions.hpp): forward, backward and update, in
// them the modules by path, as the threads come through them. A step knows its region; while nobody
// listens, no step asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/bound/code_regions.hpp"
#include "emulator/host/pool.hpp"
#include "support/regions.hpp"

namespace poptorch::emulator {

// The regions that a thread is in while it runs a machine: the machine's own and those of steps.
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
  std::vector<void*> open_;  // the machine's, then one for every region from the outermost to at_
};

// Shows the share of a job that another thread than its owner takes: as region `name`, if there is
// one, to those who listen to the owner.
class HelpedRegion final : public Helping {
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
