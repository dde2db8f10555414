#include "emulator/pool.hpp"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace poptorch::emulator {

namespace {

// Pauses of roughly 40 cycles: 10 to 20 us of spinning before a waiting thread gives its core away.
constexpr int kSpins = 1000;
// Yields before an idle worker sleeps in the kernel.
constexpr int kYields = 50;

std::atomic<uint64_t>& fork_generation() {
  static std::atomic<uint64_t> generation{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation().fetch_add(1); });
  (void)registered;
  return generation;
}

struct Job {
  const TaskRef* task = nullptr;
  int tasks = 0;
};

// The threads of one process and what they share. A child of fork makes a new one and leaks the
// old: its threads are gone and its mutex may be held for ever.
struct Team {
  explicit Team(int threads, uint64_t born) : size(threads), generation(born) {}

  const int size;
  const uint64_t generation;
  std::mutex callers;  // one job at a time: worker 0 is whoever calls
  std::vector<std::thread> threads;

  // Written only while !open and inside == 0.
  Job job;
  alignas(64) std::atomic<int> next{0};
  alignas(64) std::atomic<bool> open{false};
  std::atomic<int> inside{0};  // workers that may touch the job
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};

  std::mutex error_mutex;
  std::exception_ptr error;
  int error_task = 0;

  void work_off(int worker);
  void help(int worker);
  void worker_loop(int worker);
  void run(int tasks, const TaskRef& task);
  void start();
  void shut_down();
};

// The team and worker number whose task this thread is running.
struct Current {
  const Team* team = nullptr;
  int worker = 0;
};
thread_local Current current;

void Team::work_off(int worker) {
  const Current outer = current;
  current = {this, worker};
  for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < job.tasks;) {
    try {
      (*job.task)(i, worker);
    } catch (...) {
      // The error of the first task by number, whoever ran it.
      std::lock_guard lock(error_mutex);
      if (!error || i < error_task) error = std::current_exception(), error_task = i;
    }
  }
  current = outer;
}

// Dekker's handshake with run(): either the caller sees this worker inside and waits, or the worker
// sees the job closed and leaves it alone.
void Team::help(int worker) {
  inside.fetch_add(1);
  if (open.load()) work_off(worker);
  inside.fetch_sub(1);
}

void Team::worker_loop(int worker) {
  uint32_t seen = 0;
  while (true) {
    uint32_t now = epoch.load();
    for (int i = 0; now == seen && i < kSpins + kYields; ++i) {
      if (i < kSpins) {
        _mm_pause();
      } else {
        sched_yield();
      }
      now = epoch.load(std::memory_order_acquire);
    }
    if (now == seen) {
      sleepers.fetch_add(1);
      epoch.wait(seen);
      sleepers.fetch_sub(1);
      continue;
    }
    seen = now;
    if (stop.load()) return;
    help(worker);
  }
}

void Team::start() {
  threads.reserve(size - 1);
  for (int worker = 1; worker < size; ++worker) {
    threads.emplace_back([this, worker] { worker_loop(worker); });
  }
}

void Team::run(int tasks, const TaskRef& task) {
  std::lock_guard lock(callers);
  job = {&task, tasks};
  next.store(0, std::memory_order_relaxed);
  error = nullptr;
  if (tasks > 1 && size > 1) {
    if (threads.empty()) start();
    open.store(true);
    epoch.fetch_add(1);
    if (sleepers.load() > 0) epoch.notify_all();
    work_off(0);
    open.store(false);
    for (int i = 0; inside.load() != 0; ++i) {
      if (i < kSpins) {
        _mm_pause();
      } else {
        sched_yield();
      }
    }
  } else {
    work_off(0);
  }
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
}

void Team::shut_down() {
  stop.store(true);
  epoch.fetch_add(1);
  epoch.notify_all();
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
  if (team->generation != fork_generation().load()) return;  // the parent's: nothing to join here
  team->shut_down();
  delete team;
}

int Pool::threads() const { return impl_->threads; }

void Pool::run(int tasks, TaskRef task) {
  Team& team = impl_->here();
  if (current.team == &team) {
    for (int i = 0; i < tasks; ++i) task(i, current.worker);
  } else if (tasks > 0) {
    team.run(tasks, task);
  }
}

}  // namespace poptorch::emulator
