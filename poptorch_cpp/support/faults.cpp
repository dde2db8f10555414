// One list, guarded by a mutex, holds the armed faults. An atomic flag says whether to look there.
#include "support/faults.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <utility>

#include "support/environment.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::support {
namespace {

struct Armed {
  Fault fault;
  int64_t number = 0;
  int64_t seen = 0;  // occurrences of its point
  bool struck = false;

  bool has_broken_the_system() const {
    return struck && fault.is_of_device() && fault.action.empty();
  }
  bool is_at(FaultPoint point, std::string_view place, int64_t index) const {
    if (fault.point != point || struck) return false;
    // A compilation has been counted before its passes run.
    if (point == FaultPoint::kCompile || fault.place.empty()) return true;
    return fault.place == place && fault.index == index;
  }
};

struct Faults {
  std::mutex mutex;
  std::vector<Armed> armed;
  int64_t numbers = 0;
  bool has_read_environment = false;
};

Faults& faults() {
  static Faults all;
  return all;
}

// True until the environment has been read, so that the first point reads it.
std::atomic<bool> anything_armed{true};

// Requires `all.mutex`.
int64_t add(Faults& all, Fault fault) {
  all.armed.push_back({.fault = std::move(fault), .number = ++all.numbers});
  anything_armed = true;
  return all.numbers;
}

// Requires `all.mutex`.
void read_environment(Faults& all) {
  if (std::exchange(all.has_read_environment, true)) return;
  const std::string list = environment_text("POPTORCH_FAULT");
  if (list.empty()) return;
  for (Fault& fault : faults_of(list)) add(all, std::move(fault));
}

// Requires `all.mutex`. A fault that broke the system stays of interest to points that acquire a
// device.
void note_what_is_armed(const Faults& all) {
  anything_armed = std::any_of(all.armed.begin(), all.armed.end(), [](const Armed& one) {
    return !one.struck || one.has_broken_the_system();
  });
}

std::string lost(const Fault& fault) {
  if (fault.action.empty()) return " Take the system out of operation.";
  switch (fault.point) {
    case FaultPoint::kAttach:
      return " Attach again.";
    case FaultPoint::kCompile:
      return " Compile again.";
    default:
      return " The contents of the device are lost: detach and attach again, or destroy() the "
             "wrapper, and continue from a checkpoint.";
  }
}

}  // namespace

const char* DeviceError::type() const {
  return is_recoverable() ? "poplar_recoverable_runtime_error"
                          : "poplar_unrecoverable_runtime_error";
}

int64_t arm_fault(Fault fault) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  return add(all, std::move(fault));
}

bool has_struck(int64_t number) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  return std::any_of(all.armed.begin(), all.armed.end(),
                     [&](const Armed& one) { return one.number == number && one.struck; });
}

void disarm_fault(int64_t number) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.armed, [&](const Armed& one) { return one.number == number; });
  if (all.has_read_environment) note_what_is_armed(all);
}

bool may_meet_faults() { return anything_armed.load(std::memory_order_relaxed); }

std::optional<Fault> due_fault(FaultPoint point, std::string_view place, int64_t index) {
  if (!may_meet_faults()) return std::nullopt;
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  read_environment(all);
  std::optional<Fault> due;
  for (Armed& one : all.armed) {
    // If several are due, the others strike later, one at a time.
    if (!one.is_at(point, place, index) || ++one.seen < one.fault.nth || due) continue;
    one.struck = true;
    due = one.fault;
  }
  note_what_is_armed(all);
  return due;
}

void meet_fault(FaultPoint point, std::string_view place, int64_t index) {
  const std::optional<Fault> due = due_fault(point, place, index);
  if (due) return strike(*due);
  if (point != FaultPoint::kAttach || !may_meet_faults()) return;
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  for (const Armed& one : all.armed) {
    if (!one.has_broken_the_system()) continue;
    throw DeviceError(
        str("[device] no device is available since one failed permanently (injected: ",
            one.fault.text, "). Take the system out of operation."),
        "");
  }
}

void strike(const Fault& fault) {
  if (!fault.is_of_device()) return send_signal(fault);
  DeviceError error = error_of(fault, "the device");
  error.add_frame(std::string(name_of(fault.point)));
  throw error;
}

void send_signal(const Fault& fault) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  // This thread receives the signal, so that its handler has run when this function returns. If it
  // blocks the signal, another thread receives it. SIGSTOP and SIGKILL affect all threads.
  const bool listens = sigismember(&blocked, fault.signal) == 0;
  const bool is_for_all = fault.signal == SIGKILL || fault.signal == SIGSTOP;
  if (listens && !is_for_all) {
    raise(fault.signal);
  } else {
    kill(getpid(), fault.signal);
  }
  while (fault.signal == SIGKILL) pause();
  if (Watch* watch = Watch::current()) watch->hasten();
}

DeviceError failed_before(const DeviceError& error) {
  const std::string_view text = error.what();
  DeviceError again(str("[device] the device has not been attached again since this error: ",
                        text.substr(std::min(text.find(' ') + 1, text.size()))),
                    error.recovery_action());
  for (const std::string& frame : error.frames()) again.add_frame(frame);
  return again;
}

DeviceError error_of(const Fault& fault, const std::string& place, std::source_location where) {
  return DeviceError(str("[device] ", place, " failed (injected: ", fault.text, ").", lost(fault)),
                     fault.action, where);
}

}  // namespace poptorch::support
