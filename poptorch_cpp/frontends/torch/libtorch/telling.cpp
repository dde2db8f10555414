#include "frontends/torch/libtorch/telling.hpp"

#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::telling {
namespace {

using support::log;
using support::LogLevel;
using support::str;

std::string shown(const ir::Attr& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : ir::attr_text(value);
}

}  // namespace

void options(const ir::Execution& execution) {
  if (!support::log_enabled(LogLevel::kDebug)) return;
  for (const ir::ExecutionLine& line : ir::lines_of(execution)) {
    if (line.keyword != "execution" && line.keyword != "location") continue;
    for (const auto& [option, value] : line.attrs) {
      const std::string what = line.name.empty()
                                   ? str(option, " to value ")
                                   : str(line.keyword, "_", line.name, "[", option, "] to ");
      log(LogLevel::kDebug, str("poptorch.Options set ", what, shown(value)));
    }
  }
}

void weights_to_device() { log(LogLevel::kInfo, "Writing weights from host to IPU memory."); }
void weights_to_host() { log(LogLevel::kInfo, "Writing weights from IPU to host."); }

void named_buffers_to_device() {
  log(LogLevel::kInfo, "Writing named buffers from host to IPU memory.");
}

void setting_random_state(uint64_t seed) {
  log(LogLevel::kDebug, str("Setting random seed to: ", seed));
  log(LogLevel::kDebug, "Setting RNG state");
}

void reading_random_state() {
  log(LogLevel::kDebug, "Reading random seed");
  log(LogLevel::kDebug, "Reading RNG state");
}

void block(const std::string& id, int stage, int phase, int ipu) {
  log(LogLevel::kDebug,
      str("Starting block id=", id, " stage=", stage, " phase=", phase, " ipu=", ipu));
}

}  // namespace poptorch::telling
