// A work-sharing thread pool whose results never depend on its size: work is split into tasks by
// shape alone, and a task writes only its own part.
//
// The waiting side spins briefly, then yields, and takes over tasks that no worker has started, so
// a busy machine costs its share and no more. Threads start on first use and again after fork.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace poptorch::emulator {

// A non-owning reference to a callable `void(int task, int worker)`.
class TaskRef {
 public:
  template <typename Function>
  TaskRef(Function& function)  // NOLINT: implicit by design
      : object_(&function), call_([](void* object, int task, int worker) {
          (*static_cast<Function*>(object))(task, worker);
        }) {}
  void operator()(int task, int worker) const { call_(object_, task, worker); }

 private:
  void* object_;
  void (*call_)(void*, int, int);
};

// What surrounds the share of a job's tasks that another thread than its owner takes. begin() comes
// before the first of them, end() after the last, on that thread, with what begin() returned.
class Helping {
 public:
  virtual ~Helping() = default;
  virtual void* begin() = 0;
  virtual void end(void* begun) = 0;
};

class Pool {
 public:
  // `threads` counts the caller: 1 runs everything inline.
  explicit Pool(int threads);
  ~Pool();
  int threads() const;
  // Runs task 0..tasks-1 once each; returns when all are done. An exception of a task is rethrown
  // here. May be called from several threads; the tasks of a call from inside a task are run by its
  // worker and those that are idle. `worker` is in [0, threads()): the owner of the scratch memory
  // to use.
  // `meanwhile`, which must not throw, is called time and again by a caller that has nothing left
  // to do but to wait for tasks that others took.
  void run(int tasks, TaskRef task, const std::function<void()>& meanwhile = {},
           Helping* helping = nullptr);

  // For tasks that find work among themselves. signal() counts what may be new work; announce()
  // counts and wakes; idle() helps with another task's call of run(), or else waits until signal()
  // is no longer what the caller saw before it looked for work.
  uint32_t signal() const;
  void announce();
  void idle(uint32_t seen);
  bool help();         // with another task's call of run(), if there is one; whether there was
  void pause() const;  // some microseconds, without giving the core away

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::emulator
