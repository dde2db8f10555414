#include "emulator/host/pool.hpp"

#include <pthread.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/host/backoff.hpp"
#include "support/processor.hpp"

namespace poptorch::emulator {

namespace {

constexpr int kShortSpins = 100;
// An idle worker yields so often, after it has spun, before it sleeps in the kernel.
constexpr int kYields = 50;

std::atomic<uint64_t>& fork_generation() {
  static std::atomic<uint64_t> generation{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation().fetch_add(1); });
  (void)registered;
  return generation;
}

// Holds tasks that an owner publishes and that others take while the job is open.
class Job {
 public:
  // Is called by the owner, as `worker`. Returns when every task is done; rethrows the error of the
  // failed task with the lowest number. `announce` notifies the others.
  template <typename Announce>
  void run(int tasks, const TaskRef& task, int worker, Announce announce,
           const std::function<void()>& meanwhile = {}, HelperScope* scope = nullptr) {
    tasks_ = tasks;
    task_ = &task;
    scope_ = scope;
    next_.store(0, std::memory_order_relaxed);
    error_ = nullptr;
    owned_ = true;
    open_.store(true);
    announce();
    work_off(worker, nullptr);
    open_.store(false);
    for (Backoff backoff; inside_.load() != 0; backoff.wait()) {
      if (backoff.yields() && meanwhile) meanwhile();
    }
    owned_ = false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Takes tasks until none is left. Synchronises with run() as in Dekker's algorithm: either the
  // owner sees this worker inside and waits, or the worker sees the job closed and leaves it alone.
  bool help(int worker) {
    if (!open_.load(std::memory_order_relaxed)) return false;
    inside_.fetch_add(1);
    const bool helped = open_.load() && work_off(worker, scope_);
    inside_.fetch_sub(1);
    return helped;
  }

  bool owned() const { return owned_; }  // called by the owner's thread only

 private:
  bool work_off(int worker, HelperScope* scope) {
    bool any = false;
    void* begun = nullptr;
    int last = 0;
    for (int i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_; any = true) {
      last = i;
      attempt(i, [&] {
        if (scope && !any) begun = scope->begin();
        (*task_)(i, worker);
      });
    }
    if (scope && any) attempt(last, [&] { scope->end(begun); });
    return any;
  }

  // Calls `work` and records its error as that of task `number`.
  template <typename Work>
  void attempt(int number, Work work) {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (!error_ || number < error_task_) error_ = std::current_exception(), error_task_ = number;
    }
  }

  // These are written only while the job is closed and nobody is inside.
  const TaskRef* task_ = nullptr;
  HelperScope* scope_ = nullptr;
  int tasks_ = 0;
  bool owned_ = false;
  alignas(64) std::atomic<int> next_{0};
  alignas(64) std::atomic<bool> open_{false};
  std::atomic<int> inside_{0};  // workers that may touch the job
  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_task_ = 0;
};

// Holds the threads of one process and their shared state. A child of fork makes a new team and
// leaks the old one: its threads are gone and its mutex may be held for ever.
struct Team {
  Team(int threads, uint64_t born) : size(threads), generation(born), nested(threads) {}

  const int size;
  const uint64_t generation;
  std::mutex callers;  // one job from outside at a time: its caller is worker 0
  std::vector<std::thread> threads;
  Job outer;
  std::vector<Job> nested;  // by worker
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};

  bool help(int worker, bool outer_too);
  void wait(uint32_t seen);
  void announce();
  void worker_loop(int worker);
  void run(int tasks, const TaskRef& task, const std::function<void()>& meanwhile,
           HelperScope* scope);
  void run_nested(int tasks, const TaskRef& task, int worker, HelperScope* scope);
  void start();
  void shut_down();
};

// Names the team and worker number whose task this thread is running.
struct Current {
  const Team* team = nullptr;
  int worker = 0;
};
thread_local Current current;

bool Team::help(int worker, bool outer_too) {
  const Current before = std::exchange(current, {this, worker});
  bool helped = outer_too && outer.help(worker);
  for (Job& job : nested) helped = job.help(worker) || helped;
  current = before;
  return helped;
}

void Team::announce() {
  epoch.fetch_add(1);
  if (sleepers.load() > 0) epoch.notify_all();
}

void Team::wait(uint32_t seen) {
  Backoff backoff;
  for (int i = 0; i < Backoff::kSpins + kYields; ++i) {
    if (epoch.load(std::memory_order_acquire) != seen) return;
    backoff.wait();
  }
  sleepers.fetch_add(1);
  epoch.wait(seen);
  sleepers.fetch_sub(1);
}

void Team::worker_loop(int worker) {
  for (uint32_t seen = 0; !stop.load();) {
    wait(seen);
    seen = epoch.load();
    help(worker, true);
  }
}

void Team::start() {
  threads.reserve(size - 1);
  for (int worker = 1; worker < size; ++worker) {
    threads.emplace_back([this, worker] { worker_loop(worker); });
  }
}

void Team::run(int tasks, const TaskRef& task, const std::function<void()>& meanwhile,
               HelperScope* scope) {
  std::lock_guard lock(callers);
  const bool shared = tasks > 1 && size > 1;
  if (shared && threads.empty()) start();
  const Current before = std::exchange(current, {this, 0});
  struct Restore {
    const Current& before;
    ~Restore() { current = before; }
  } restore{before};
  auto tell = [&] {
    if (shared) announce();
  };
  outer.run(tasks, task, 0, tell, meanwhile, scope);
}

void Team::run_nested(int tasks, const TaskRef& task, int worker, HelperScope* scope) {
  Job& job = nested[worker];
  if (tasks > 1 && !job.owned()) {
    job.run(tasks, task, worker, [&] { announce(); }, {}, scope);
    return;
  }
  for (int i = 0; i < tasks; ++i) task(i, worker);
}

void Team::shut_down() {
  stop.store(true);
  announce();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

struct Pool::Impl {
  int threads;
  std::atomic<Team*> team;

  Team& here() {
    Team* now = team.load(std::memory_order_acquire);
    const uint64_t generation = fork_generation().load(std::memory_order_relaxed);
    if (now->generation == generation) return *now;
    auto fresh = std::make_unique<Team>(threads, generation);
    if (team.compare_exchange_strong(now, fresh.get())) return *fresh.release();
    return *now;
  }
};

Pool::Pool(int threads) : impl_(new Impl{threads < 1 ? 1 : threads, nullptr}) {
  impl_->team = new Team(impl_->threads, fork_generation().load());
}

Pool::~Pool() {
  Team* team = impl_->team.load();
  if (team->generation != fork_generation().load()) return;  // the parent has its threads
  team->shut_down();
  delete team;
}

int Pool::threads() const { return impl_->threads; }

void Pool::run(int tasks, TaskRef task, const std::function<void()>& meanwhile,
               HelperScope* scope) {
  Team& team = impl_->here();
  if (current.team == &team) {
    team.run_nested(tasks, task, current.worker, scope);
  } else if (tasks > 0) {
    team.run(tasks, task, meanwhile, scope);
  }
}

uint32_t Pool::signal() const { return impl_->here().epoch.load(); }

void Pool::announce() { impl_->here().announce(); }

void Pool::pause() const {
  for (int i = 0; i < kShortSpins; ++i) support::pause();
}

bool Pool::help() { return impl_->here().help(current.worker, false); }

void Pool::idle(uint32_t seen) {
  Team& team = impl_->here();
  if (!team.help(current.worker, false)) team.wait(seen);
}

}  // namespace poptorch::emulator
