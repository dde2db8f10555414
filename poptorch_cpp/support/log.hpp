// Logging of the core: `[HH:MM:SS.mmm] [poptorch:cpp] [level] text` on stderr, or where
// POPTORCH_LOG_DEST says. The level follows POPTORCH_LOG_LEVEL until set_log_level is called; what
// the compiler says of itself has a level of its own once POPART_LOG_LEVEL or a call sets one.
#pragma once

#include <string>
#include <string_view>

namespace poptorch::support {

// The numbers are those of poptorch.setLogLevel.
enum class LogLevel {
  kTraceAll = -1,
  kTrace = 0,
  kDebug = 1,
  kInfo = 2,
  kWarn = 3,
  kErr = 4,
  kOff = 6
};

void set_log_level(LogLevel level);
void set_compiler_log_level(LogLevel level);
LogLevel log_level();
LogLevel compiler_log_level();
void log(LogLevel level, std::string_view text);
void log_compiler(LogLevel level, std::string_view text);

// Of a line on stderr that has no end yet, such as a progress bar: a log line there ends it first.
void set_line_open(bool is_open);
bool end_open_line();  // whether there was one, which the caller ends

inline bool log_enabled(LogLevel level) { return level >= log_level(); }

}  // namespace poptorch::support
