// Says in which state runs and faults have left the device. The engine owns this object; the runner
// and the session report to it, and everything else asks it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "support/faults.hpp"

namespace poptorch::emulator {

// Any thread may call kind() and forget_interruption() at any time. The rest is for the thread that
// has exclusive access to the engine.
class RunState {
 public:
  enum class Kind : uint8_t {
    kClean,    // no run was begun, or the last one completed
    kPartial,  // the last run did not complete: what it wrote may be incomplete
    kFailed,   // the device has failed, and its contents are lost
  };
  Kind kind() const { return kind_.load(); }
  // Throws the error of a device that was not restarted, if it has failed.
  void refuse_failed() const {
    if (error_) throw support::failed_before(*error_);
  }
  // Returns whether a run since the last call was interrupted. Device faults do not count.
  bool forget_interruption() { return was_interrupted_.exchange(false); }

  // Lives as long as a run. The run was interrupted unless complete() is called.
  class Run {
   public:
    explicit Run(RunState& state)
        : state_(state), follows_partial_(state.kind_.exchange(Kind::kPartial) != Kind::kClean) {}
    ~Run() {
      if (state_.kind() == Kind::kPartial) state_.was_interrupted_ = true;
    }
    Run(const Run&) = delete;
    bool follows_partial() const { return follows_partial_; }
    void complete() { state_.kind_ = Kind::kClean; }

   private:
    RunState& state_;
    const bool follows_partial_;
  };

  void fail(const support::DeviceError& error) {
    error_ = error;
    kind_ = Kind::kFailed;
    was_interrupted_ = false;
  }
  void restart() {
    error_.reset();
    kind_ = Kind::kClean;
    was_interrupted_ = false;
  }

 private:
  std::atomic<Kind> kind_{Kind::kClean};
  std::atomic<bool> was_interrupted_{false};
  std::optional<support::DeviceError> error_;  // of kFailed
};

}  // namespace poptorch::emulator
