// Named regions of time, for a profiler of the process: compilations, passes, runs and, inside
// runs, modules. The core does not depend on a profiler. It calls the observer, which a front end
// sets, and makes no regions while no profiler listens.
#pragma once

#include <memory>
#include <string>

namespace poptorch::support {

// Every call concerns the calling thread. None may throw.
class RegionObserver {
 public:
  virtual ~RegionObserver() = default;
  // Returns whether regions that begin now would be recorded.
  virtual bool listens() const = 0;
  // Begins a region. leave() receives the returned pointer, on the same thread. Regions nest.
  virtual void* enter(const std::string& name) = 0;
  virtual void leave(void* region) = 0;
  // Returns what records this thread's regions. It also records those of another thread from
  // adopt() to release(), which takes what adopt() returned.
  virtual std::shared_ptr<const void> context() const = 0;
  virtual void* adopt(const void* context) = 0;
  virtual void release(void* adopted) = 0;
};

// Sets the observer for the rest of the process. It must live until the process ends.
void set_region_observer(RegionObserver* observer);
// Returns nullptr if no profiler listens on this thread now.
RegionObserver* region_observer();

// A region of the calling thread, from here to the end of the scope.
class Region {
 public:
  explicit Region(const char* name) : observer_(region_observer()) {
    if (observer_) region_ = observer_->enter(name);
  }
  explicit Region(const std::string& name) : Region(name.c_str()) {}
  ~Region() {
    if (observer_) observer_->leave(region_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  RegionObserver* observer_;
  void* region_ = nullptr;
};

}  // namespace poptorch::support
