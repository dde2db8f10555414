// Gives one thread at a time exclusive access to a compiled model; other threads wait.
#pragma once

#include <atomic>
#include <thread>

namespace poptorch::session {

class Turns {
 public:
  enum class IfTaken : bool { kWait, kRefuse };

  // Holds the turn while it lives. Waits while another thread holds it, until this thread's watch
  // stops it (support::Interrupted), or refuses (UserError). UserError if this thread holds it: a
  // signal handler uses the model in the middle of its run.
  class Turn {
   public:
    explicit Turn(Turns& turns, IfTaken if_taken = IfTaken::kWait) : turns_(turns) {
      turns_.enter(if_taken);
    }
    ~Turn() { turns_.holder_.store(std::thread::id(), std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

 private:
  void enter(IfTaken if_taken);

  std::atomic<std::thread::id> holder_{};
};

}  // namespace poptorch::session
