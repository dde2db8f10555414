// Arms a fault for a part of a test.
#pragma once

#include <string_view>

#include "support/faults.hpp"

namespace poptorch::support {

// The fault is armed during this object's lifetime.
class Arming {
 public:
  explicit Arming(std::string_view text) : number_(arm_fault(fault_of(text))) {}
  ~Arming() { disarm_fault(number_); }
  Arming(const Arming&) = delete;
  Arming& operator=(const Arming&) = delete;
  bool has_struck() const { return support::has_struck(number_); }

 private:
  int64_t number_;
};

}  // namespace poptorch::support
