// Who uses a compiled model: one thread at a time, the others wait.
#pragma once

#include <atomic>
#include <thread>

namespace poptorch::session {

class Turns {
 public:
  enum class IfTaken : bool { kWait, kRefuse };

  // Takes the turn until its end. Waits for another thread's, unless the watch of this one stops
  // that (support::Interrupted), or refuses (UserError). UserError where this thread has it: the
  // handler of a signal, which runs in the middle of the model's run, wants to use the model.
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
