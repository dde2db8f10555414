// Holds the table of points and kinds, and reads the text that names them.
#include <algorithm>
#include <charconv>
#include <csignal>

#include "support/faults.hpp"
#include "support/strings.hpp"

namespace poptorch::support {
namespace {

// A part of a fault's text, between the number of the occurrence and the kind: a number from 0, or
// a word. The word is one of `words`, if there are any.
struct Part {
  std::string_view name;
  bool is_word = false;
  std::vector<std::string> words = {};
};

struct Point {
  std::string name;
  bool breaks_devices = false;
  std::vector<Part> parts = {};
};

// Returns the points in the order of FaultPoint.
const std::vector<Point>& points() {
  static const std::vector<Point> all = {
      {"attach", true},
      {"compile", true, {{"pass", true}, {"number of ops"}}},
      {"run", true, {{"micro-batch"}, {"IPU"}}},
      {"copy", true},
      {"save"},
      {"load", false, {{"process", true, {"program", "loader", "worker"}}, {"worker"}}},
      {"join", false, {{"stage", true, {"meeting", "memory", "program"}}}},
      {"collective", false, {{"kind", true, {"run", "exchange", "host"}}}},
  };
  return all;
}

constexpr std::string_view kUnrecoverable = "UNRECOVERABLE";
constexpr std::pair<std::string_view, int> kSignals[] = {
    {"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGKILL", SIGKILL}, {"SIGSTOP", SIGSTOP}};
constexpr int64_t kMost = int64_t{1} << 40;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UserError(str("[faults] '", text, "': ", why,
                      " Write <point>[:<nth>[:<part>[:<part>]]]:<kind>, such as run:3:IPU_RESET or "
                      "run:3:5:1:SIGINT. Separate several with commas."));
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

int64_t number_of(std::string_view text, const std::string& word, std::string_view what,
                  int64_t least) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < least ||
      number > kMost) {
    refuse(text,
           str("the ", what, " is '", word, "', which is not a whole number from ", least, "."));
  }
  return number;
}

std::vector<std::string> names_of_points() {
  std::vector<std::string> names;
  for (const Point& point : points()) names.push_back(point.name);
  return names;
}

FaultPoint point_of(std::string_view text, const std::string& name) {
  const std::vector<std::string> names = names_of_points();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    refuse(text, str("there is no point '", name, "': ", known(name, names)));
  }
  return static_cast<FaultPoint>(found - names.begin());
}

void read_kind(const std::string& kind, Fault& fault) {
  for (const auto& [name, signal] : kSignals) {
    if (kind == name) fault.signal = signal;
  }
  if (fault.signal != 0) return;
  std::vector<std::string> kinds(recovery_actions().begin(), recovery_actions().end());
  kinds.emplace_back(kUnrecoverable);
  const bool is_of_device = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  for (const auto& signal : kSignals) kinds.emplace_back(signal.first);
  if (!is_of_device) refuse(fault.text, str("there is no kind '", kind, "': ", known(kind, kinds)));
  if (kind != kUnrecoverable) fault.action = kind;
}

// Reads the parts that `words`, the text split at its colons, has between number and kind.
void read_parts(const Point& point, const std::vector<std::string>& words, Fault& fault) {
  const size_t most = 3 + point.parts.size();
  if (words.size() > most) {
    refuse(fault.text,
           str(point.name, " has at most ", most, " parts, but got ", words.size(), "."));
  }
  for (size_t i = 2; i + 1 < words.size(); ++i) {
    const Part& part = point.parts[i - 2];
    const std::string& word = words[i];
    if (!part.is_word) {
      const int64_t number = number_of(fault.text, word, part.name, 0);
      const bool is_run = fault.point == FaultPoint::kRun;
      (!is_run ? fault.index : i == 2 ? fault.micro_batch : fault.ipu) = number;
      continue;
    }
    const auto& names = part.words;
    if (word.empty() || (!names.empty() && std::ranges::find(names, word) == names.end())) {
      refuse(fault.text, str("the ", part.name, " is '", word, "'",
                             names.empty() ? "." : ": " + known(word, names)));
    }
    fault.place = word;
  }
}

void refuse_device_fault(const Point& point, const Fault& fault) {
  if (!fault.is_of_device() || (point.breaks_devices && fault.place.empty())) return;
  std::vector<std::string_view> signals;
  for (const auto& signal : kSignals) signals.push_back(signal.first);
  refuse(fault.text, str("a device cannot fail ", fault.place.empty() ? "at " : "in a pass of ",
                         point.name, ". Choose a signal: ", join(signals, ", "), "."));
}

}  // namespace

const std::vector<std::string_view>& recovery_actions() {
  static const std::vector<std::string_view> actions = {"IPU_RESET", "LINK_RESET",
                                                        "PARTITION_RESET", "FULL_RESET"};
  return actions;
}

std::string_view name_of(FaultPoint point) { return points()[static_cast<size_t>(point)].name; }

FaultPoint fault_point_of(std::string_view name) { return point_of(name, std::string(name)); }

Fault fault_of(std::string_view text) {
  const std::vector<std::string> words = split(text, ':');
  if (words.size() < 2) refuse(text, "this is not a point and a kind.");
  Fault fault;
  fault.text = text;
  fault.point = point_of(text, words.front());
  const Point& point = points()[static_cast<size_t>(fault.point)];
  read_kind(words.back(), fault);
  if (words.size() > 2) fault.nth = number_of(text, words[1], "number of the occurrence", 1);
  read_parts(point, words, fault);
  refuse_device_fault(point, fault);
  return fault;
}

std::vector<Fault> faults_of(std::string_view list) {
  std::vector<Fault> found;
  for (const std::string& text : split(list, ',')) found.push_back(fault_of(text));
  return found;
}

void check_faults(std::string_view list) { faults_of(list); }

}  // namespace poptorch::support
