// Gives one thread at a time exclusive access to a compiled model; other threads wait.
#pragma once

#include <atomic>
#include <thread>

namespace poptorch::session {

class ExclusiveAccess {
 public:
  enum class IfTaken : bool { kWait, kRefuse };

  // Holds access while it lives. Waits while another thread holds it, until this thread's watch
  // stops it (support::Interrupted), or refuses (UserError). UserError if this thread holds it: a
  // signal handler uses the model in the middle of its run.
  class Guard {
   public:
    explicit Guard(ExclusiveAccess& access, IfTaken if_taken = IfTaken::kWait) : access_(access) {
      access_.enter(if_taken);
    }
    ~Guard() { access_.holder_.store(std::thread::id(), std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ExclusiveAccess& access_;
  };

 private:
  void enter(IfTaken if_taken);

  std::atomic<std::thread::id> holder_{};
};

}  // namespace poptorch::session
