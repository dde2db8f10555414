// Logging of the core: `[HH:MM:SS.mmm] [poptorch:cpp] [level] text` on stderr, or where
// POPTORCH_LOG_DEST says. The level follows POPTORCH_LOG_LEVEL until set_log_level is called. The
// compiler's own lines have a separate level once POPART_LOG_LEVEL or set_compiler_log_level sets
// one.
#pragma once

#include <cstdint>
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
int64_t warning_count();  // of warnings and errors that this process has logged

// Records whether stderr has an unfinished line, such as a progress bar. The next log line there
// ends it first.
void set_line_open(bool is_open);
bool end_open_line();  // whether a line was open, which the caller ends

inline bool log_enabled(LogLevel level) { return level >= log_level(); }

}  // namespace poptorch::support
