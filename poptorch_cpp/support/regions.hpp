// Regions of time by name, for whoever profiles the process from outside: compilations, passes,
// runs and, inside those, modules. The core knows no profiler. It asks the observer, which a front
// end sets, and while nobody listens makes no region at all.
#pragma once

#include <memory>
#include <string>

namespace poptorch::support {

// Every call is about the calling thread; none may throw.
class RegionObserver {
 public:
  virtual ~RegionObserver() = default;
  // Whether regions that begin now would be seen.
  virtual bool listens() const = 0;
  // A region begins; what is returned is handed to leave(), on the same thread. Regions nest.
  virtual void* enter(const std::string& name) = 0;
  virtual void leave(void* region) = 0;
  // By what this thread's regions are seen; those of a thread between adopt() and release(), which
  // takes what adopt() returned, are seen by the same.
  virtual std::shared_ptr<const void> context() const = 0;
  virtual void* adopt(const void* context) = 0;
  virtual void release(void* adopted) = 0;
};

// For the rest of the process, which it must outlive.
void set_region_observer(RegionObserver* observer);
// nullptr: nobody listens on this thread now.
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
