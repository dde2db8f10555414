#include "support/regions.hpp"

#include <atomic>

namespace poptorch::support {
namespace {

std::atomic<RegionObserver*> observer_of_process{nullptr};

}  // namespace

void set_region_observer(RegionObserver* observer) { observer_of_process = observer; }

RegionObserver* region_observer() {
  RegionObserver* observer = observer_of_process.load(std::memory_order_acquire);
  return observer && observer->listens() ? observer : nullptr;
}

}  // namespace poptorch::support
