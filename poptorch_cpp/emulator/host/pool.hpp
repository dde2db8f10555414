// A work-sharing thread pool whose results never depend on its size: work is split into tasks by
// shape alone, and a task writes only its own part.
//
// The waiting side spins briefly, then yields, and takes over tasks that no worker has started. A
// busy machine thus costs its share and no more. Threads start on first use and again after fork.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace poptorch::emulator {

// Is a non-owning reference to a callable `void(int task, int worker)`.
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

// Surrounds the tasks of a job that a thread other than its owner takes. On that thread, begin() is
// called before the first of them, and end() after the last, with what begin() returned.
class HelperScope {
 public:
  virtual ~HelperScope() = default;
  virtual void* begin() = 0;
  virtual void end(void* begun) = 0;
};

class Pool {
 public:
  // `threads` counts the caller: 1 runs everything inline.
  explicit Pool(int threads);
  ~Pool();
  int threads() const;
  // Runs task 0..tasks-1 once each; returns when all are done. Rethrows an exception of a task. May
  // be called from several threads. If a task calls it, that task's worker and idle ones run the
  // new tasks. `worker` is in [0, threads()): the owner of the scratch memory to use.
  // A caller that only waits for tasks that others took calls `meanwhile` repeatedly; it must not
  // throw.
  void run(int tasks, TaskRef task, const std::function<void()>& meanwhile = {},
           HelperScope* scope = nullptr);

  // These serve tasks that make work for each other. signal() returns an event count of possible
  // new work; announce() increments it and wakes waiting threads. idle() helps with another task's
  // call of run(), or else blocks until signal() has changed since the caller looked for work.
  uint32_t signal() const;
  void announce();
  void idle(uint32_t seen);
  bool help();         // with another task's call of run(); returns whether it could
  void pause() const;  // some microseconds, without yielding the core

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::emulator
