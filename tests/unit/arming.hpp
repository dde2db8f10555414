// Arms a fault for a part of a test, and counts the signals that it sends.
#pragma once

#include <atomic>
#include <csignal>
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

inline std::atomic<int> received{0};

// Counts signals in `received` as long as it lives.
class Handling {
 public:
  explicit Handling(int signal)
      : signal_(signal), before_(std::signal(signal, [](int) { ++received; })) {
    received = 0;
  }
  ~Handling() { std::signal(signal_, before_); }
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

 private:
  int signal_;
  void (*before_)(int);
};

}  // namespace poptorch::support
