// Implements faults.hpp. The faults that are armed stand in one list behind a mutex; one number
// says whether anybody has to look there.
#include "support/faults.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <utility>

#include "support/environment.hpp"
#include "support/strings.hpp"

namespace poptorch::support {
namespace {

constexpr std::string_view kUnrecoverable = "UNRECOVERABLE";
const std::vector<std::string> kPoints = {"attach", "compile", "run", "copy"};
constexpr int64_t kMost = int64_t{1} << 40;

struct Armed {
  Fault fault;
  int64_t number = 0;
  int64_t seen = 0;  // occurrences of its point
  bool struck = false;
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

// Unread variables count as one: whoever comes first looks.
std::atomic<bool> anything_armed{true};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UserError(str("[faults] '", text, "': ", why,
                      " Write <point>[:<nth>[:<micro-batch>[:<IPU>]]]:<kind>, such as "
                      "run:3:IPU_RESET; several with commas between them."));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != text.npos; begin = end + 1) {
    parts.emplace_back(text.substr(begin, end - begin));
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string known(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = closest_name(name, names);
  return str("it is one of ", join(names, ", "), ".",
             near.empty() ? "" : str(" Did you mean ", near, "?"));
}

int64_t number_of(std::string_view text, const std::string& word, const std::string& what,
                  int64_t least) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < least ||
      number > kMost) {
    refuse(text, str("the ", what, " is '", word, "', which is no whole number from ", least, "."));
  }
  return number;
}

std::vector<Fault> faults_of(std::string_view list) {
  std::vector<Fault> found;
  for (const std::string& text : split(list, ',')) found.push_back(fault_of(text));
  return found;
}

// With the mutex.
int64_t add(Faults& all, Fault fault) {
  all.armed.push_back({.fault = std::move(fault), .number = ++all.numbers});
  anything_armed = true;
  return all.numbers;
}

// With the mutex.
void read_environment(Faults& all) {
  if (std::exchange(all.has_read_environment, true)) return;
  const std::string list = environment_text("POPTORCH_FAULT");
  if (list.empty()) return;
  for (Fault& fault : faults_of(list)) add(all, std::move(fault));
}

// With the mutex. What has struck and lasts is asked for when a device is taken.
void note_what_is_armed(const Faults& all) {
  anything_armed = std::any_of(all.armed.begin(), all.armed.end(), [](const Armed& one) {
    return !one.struck || one.fault.action.empty();
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
      return " What the device held is lost: detach and attach again, or destroy() the wrapper, "
             "and go on from a checkpoint.";
  }
}

}  // namespace

const char* DeviceError::type() const {
  return is_recoverable() ? "poplar_recoverable_runtime_error"
                          : "poplar_unrecoverable_runtime_error";
}

const std::vector<std::string_view>& recovery_actions() {
  static const std::vector<std::string_view> actions = {"IPU_RESET", "LINK_RESET",
                                                        "PARTITION_RESET", "FULL_RESET"};
  return actions;
}

Fault fault_of(std::string_view text) {
  const std::vector<std::string> words = split(text, ':');
  if (words.size() < 2) refuse(text, "this is no point and kind.");
  Fault fault;
  fault.text = text;
  const auto point = std::find(kPoints.begin(), kPoints.end(), words.front());
  if (point == kPoints.end()) {
    refuse(text, str("there is no point '", words.front(), "': ", known(words.front(), kPoints)));
  }
  fault.point = static_cast<FaultPoint>(point - kPoints.begin());
  std::vector<std::string> kinds(recovery_actions().begin(), recovery_actions().end());
  kinds.emplace_back(kUnrecoverable);
  const std::string& kind = words.back();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    refuse(text, str("there is no kind '", kind, "': ", known(kind, kinds)));
  }
  if (kind != kUnrecoverable) fault.action = kind;
  const size_t most = fault.point == FaultPoint::kRun ? 5 : 3;
  if (words.size() > most) {
    refuse(text, str("of ", words.front(), " there are at most ", most, " parts, but here are ",
                     words.size(), "."));
  }
  if (words.size() > 2) fault.nth = number_of(text, words[1], "number of the occurrence", 1);
  if (words.size() > 3) fault.micro_batch = number_of(text, words[2], "micro-batch", 0);
  if (words.size() > 4) fault.ipu = number_of(text, words[3], "IPU", 0);
  return fault;
}

void check_faults(std::string_view list) { faults_of(list); }

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

std::optional<Fault> due_fault(FaultPoint point) {
  if (!anything_armed.load(std::memory_order_relaxed)) return std::nullopt;
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  read_environment(all);
  std::optional<Fault> due;
  for (Armed& one : all.armed) {
    // Of several that are due the others strike later, one at a time.
    if (one.fault.point != point || one.struck || ++one.seen < one.fault.nth || due) continue;
    one.struck = true;
    due = one.fault;
  }
  note_what_is_armed(all);
  return due;
}

void meet_fault(FaultPoint point) {
  const std::optional<Fault> due = due_fault(point);
  const std::string& name = kPoints[static_cast<size_t>(point)];
  if (due) {
    DeviceError error = error_of(*due, "the device");
    error.add_frame(name);
    throw error;
  }
  if (point != FaultPoint::kAttach || !anything_armed.load(std::memory_order_relaxed)) return;
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  for (const Armed& one : all.armed) {
    if (!one.struck || !one.fault.action.empty()) continue;
    throw DeviceError(str("[device] no device can be had since one failed for good (injected: ",
                          one.fault.text, "). Take the system out of operation."),
                      "");
  }
}

DeviceError failed_before(const DeviceError& error) {
  const std::string_view text = error.what();
  DeviceError again(str("[device] it has not been attached again since this happened: ",
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
