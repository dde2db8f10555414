// This file is the only user of spdlog. Torch ships fmt headers that clash with the system's, so no
// target with torch's include folders may include spdlog.
#include "support/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/quiet.hpp"

namespace poptorch::support {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTraceAll:
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kErr:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

// Ignores an unknown name, which check_environment() refuses: a log must not throw.
LogLevel level_from_environment(const char* variable, LogLevel otherwise) try {
  const std::string name = environment_text(variable);
  if (name == "TRACE_ALL") return LogLevel::kTraceAll;
  if (name == "TRACE") return LogLevel::kTrace;
  if (name == "DEBUG" || name == "DEBUG_IR") return LogLevel::kDebug;
  if (name == "INFO") return LogLevel::kInfo;
  if (name == "WARN") return LogLevel::kWarn;
  if (name == "ERR") return LogLevel::kErr;
  if (name == "OFF") return LogLevel::kOff;
  return name.empty() ? otherwise : static_cast<LogLevel>(name[0] - '0');
} catch (const UserError&) {
  return otherwise;
}

std::atomic<LogLevel>& current_level() {
  static std::atomic<LogLevel> level{level_from_environment("POPTORCH_LOG_LEVEL", LogLevel::kInfo)};
  return level;
}

constexpr LogLevel kAsTheRest{-2};

std::atomic<LogLevel>& compilers_level() {
  static std::atomic<LogLevel> level{level_from_environment("POPART_LOG_LEVEL", kAsTheRest)};
  return level;
}

const std::string& destination() {
  static const std::string where = environment_text("POPTORCH_LOG_DEST", "stderr");
  return where;
}

spdlog::logger& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    const std::string& where = destination();
    spdlog::sink_ptr sink;
    if (where == "stdout") {
      sink = std::make_shared<spdlog::sinks::stdout_color_sink_mt>();
    } else if (where == "stderr") {
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(where);
    }
    auto made = std::make_shared<spdlog::logger>("poptorch:cpp", sink);
    made->set_pattern("[%T.%e] [%n] [%^%l%$] %v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

std::atomic<bool> line_open{false};
std::atomic<int64_t> warnings{0};

void write(LogLevel level, std::string_view text) {
  if (is_quiet) return;
  spdlog::logger& to = logger();
  if (destination() == "stderr" && end_open_line()) std::fputc('\n', stderr);
  to.log(to_spdlog(level), text);
}

}  // namespace

void set_line_open(bool is_open) { line_open = is_open; }
bool end_open_line() { return line_open.exchange(false); }

void set_log_level(LogLevel level) { current_level() = level; }
void set_compiler_log_level(LogLevel level) { compilers_level() = level; }

LogLevel log_level() { return current_level(); }
LogLevel compiler_log_level() {
  const LogLevel own = compilers_level();
  return own == kAsTheRest ? log_level() : own;
}

int64_t warning_count() { return warnings; }

void log(LogLevel level, std::string_view text) {
  if (level >= LogLevel::kWarn) ++warnings;
  if (log_enabled(level)) write(level, text);
}

void log_compiler(LogLevel level, std::string_view text) {
  if (level >= compiler_log_level()) write(level, text);
}

}  // namespace poptorch::support
