// The table of variables, and the only reader of the environment.
#include "support/environment.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"

namespace poptorch::support {
namespace {

using Kind = Variable::Kind;

const std::vector<std::string_view> kLevels = {"TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF"};
const std::vector<std::string_view> kMoreLevels = {"TRACE_ALL", "DEBUG_IR", "0", "1",
                                                   "2",         "3",        "4", "6"};
constexpr int64_t kMany = int64_t{1} << 31;

std::vector<Variable> make_table() {
  return {
      {.name = "POPTORCH_LOG_LEVEL",
       .kind = Kind::kChoice,
       .doc = "the least level that is logged; INFO by default",
       .allowed = kLevels,
       .also = kMoreLevels},
      {.name = "POPTORCH_LOG_DEST",
       .kind = Kind::kText,
       .doc = "where the log goes: `stderr` (the default), `stdout` or a file"},
      {.name = "POPTORCH_LOG_UNCAUGHT",
       .kind = Kind::kFlag,
       .doc = "1: log uncaught exceptions of a Python program, and print the stacks of all threads "
              "after a crash"},
      {.name = "POPTORCH_DEFAULT_OPTIONS",
       .kind = Kind::kText,
       .doc = "JSON with the defaults of every new Options: see `from_json`"},
      {.name = "POPTORCH_NUM_THREADS",
       .kind = Kind::kNumber,
       .doc =
           "threads of the host that run the IPUs, 0 for as many as it has cores; results do not "
           "depend",
       .least = 0,
       .most = 1024},
      {.name = "POPTORCH_MAX_CPU_ISA",
       .kind = Kind::kChoice,
       .doc = "the widest instruction set that kernels may use; the host's by default",
       .allowed = {std::begin(kInstructionSets), std::end(kInstructionSets)}},
      {.name = "POPTORCH_IPU_POOL",
       .kind = Kind::kText,
       .doc = "`<ipus>[:<version>[:<folder>]]`: the available devices"},
      {.name = "POPTORCH_IPU_MODEL",
       .kind = Kind::kFlag,
       .doc = "1: run without a device; `useIpuModel` wins"},
      {.name = "POPTORCH_IPU_MODEL_VERSION",
       .kind = Kind::kChoice,
       .doc = "the IPU version of the IPU Model; `ipu2` by default",
       .allowed = {"ipu1", "ipu2", "ipu21"}},
      {.name = "POPTORCH_SMALL_IPU_MODEL",
       .kind = Kind::kFlag,
       .doc = "1: 4 tiles an IPU; POPTORCH_IPU_MODEL wins"},
      {.name = "POPTORCH_WAIT_FOR_IPU",
       .kind = Kind::kFlag,
       .doc = "1: try again every 15 s while no device is free"},
      {.name = "POPTORCH_MEMORY_LIMIT",
       .kind = Kind::kChoice,
       .doc = "what happens to programs that do not fit into memory; `warn` by default",
       .allowed = {"warn", "error", "off"}},
      {.name = "POPART_LOG_LEVEL",
       .kind = Kind::kChoice,
       .doc = "log level of the compiler; POPTORCH_LOG_LEVEL by default",
       .allowed = kLevels,
       .also = kMoreLevels},
      {.name = "POPTORCH_MAX_GRAPH_LEN",
       .kind = Kind::kNumber,
       .doc =
           "most characters of the traced IR stage in the log at TRACE; 0, the default: no limit",
       .least = 0,
       .most = kMany},
      {.name = "POPTORCH_DUMP",
       .kind = Kind::kNames,
       .doc = "`all` or names of passes: print the module after each of them that changed it"},
      {.name = "POPTORCH_DISABLE_PASSES",
       .kind = Kind::kNames,
       .doc = "optional passes to skip, to locate a fault"},
      {.name = "POPTORCH_REPARSE",
       .kind = Kind::kFlag,
       .doc = "1: print each IR stage, parse the text, and continue with the result"},
      {.name = "POPTORCH_FAULT",
       .kind = Kind::kText,
       .doc = "`<point>[:<nth>[:<part>[:<part>]]]:<kind>`, several separated by commas: inject "
              "faults of the device or signals, to test how a program recovers",
       .check = check_faults},
      {.name = "PVTI_OPTIONS",
       .kind = Kind::kText,
       .doc = "`{\"enable\":\"true\"}`: write a trace of the host's calls"},
      {.name = "OMPI_COMM_WORLD_SIZE",
       .kind = Kind::kNumber,
       .doc = "default of `Distributed.numProcesses`",
       .least = 1,
       .most = kMany},
      {.name = "OMPI_COMM_WORLD_RANK",
       .kind = Kind::kNumber,
       .doc = "default of `Distributed.processId`",
       .least = 0,
       .most = kMany},
      {.name = "POPDIST_NUM_TOTAL_REPLICAS",
       .kind = Kind::kNumber,
       .doc = "replicas of `popxl.Ir(replication='popdist')`",
       .least = 1,
       .most = kMany},
      {.name = "POPDIST_NUM_LOCAL_REPLICAS",
       .kind = Kind::kNumber,
       .doc = "replicas that this process runs",
       .least = 1,
       .most = kMany},
      {.name = "POPLAR_TARGET_OPTIONS",
       .kind = Kind::kText,
       .doc = "JSON whose `ipuLinkDomainSize` is the number of IPUs that IPU-Links connect, at "
              "most 64"},
      {.name = "MODEL_LOG_LEVEL",
       .kind = Kind::kText,
       .doc = "level of `popxl_addons.print_tensor` and `print_text`: TRACE, DEBUG, INFO (default) "
              "or WARN and above"},
      {.name = "POPTORCH_CACHE_DIR",
       .kind = Kind::kText,
       .doc = "default of `enableExecutableCaching`"},
      {.name = "POPXL_CACHE_DIR",
       .kind = Kind::kText,
       .doc = "default of PopXL's session options `enableEngineCaching` and `cachePath`"},
      {.name = "POPART_DOT_CHECKS",
       .kind = Kind::kText,
       .doc = "default of PopXL's session option `dotChecks`: names separated by colons"},
      {.name = "POPTORCH_EXPORT_PROTO_FILE",
       .kind = Kind::kText,
       .doc = "file for the text of each captured graph"},
      {.name = "POPTORCH_EXPORT_PROTO_AS_BINARY",
       .kind = Kind::kText,
       .doc = "write that file in a binary form",
       .has_effect = false},
      {.name = "POPLAR_ENGINE_OPTIONS",
       .kind = Kind::kText,
       .doc = "JSON object: `autoReport.all` requests reports, `autoReport.directory` is their "
              "folder"},
  };
}

const Variable& find(std::string_view name) {
  for (const Variable& variable : environment_variables()) {
    if (variable.name == name) return variable;
  }
  throw InternalError(str("[environment] there is no row for ", name, "."));
}

std::string read(const Variable& variable) {
  const char* text = std::getenv(std::string(variable.name).c_str());
  return text ? text : "";
}

[[noreturn]] void refuse(const Variable& variable, const std::string& value) {
  throw UserError(
      str("[environment] ", variable.name, " is '", value, "'. ", environment_cure(variable.name)));
}

bool equal(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string choice_of(const Variable& variable, const std::string& value) {
  for (const auto* list : {&variable.allowed, &variable.also}) {
    for (std::string_view known : *list) {
      if (equal(known, value)) return std::string(known);
    }
  }
  refuse(variable, value);
}

int64_t number_of(const Variable& variable, const std::string& value) {
  int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  const bool in_range = number >= variable.least && number <= variable.most;
  if (error != std::errc() || at != end || !in_range) refuse(variable, value);
  return number;
}

bool flag_of(const Variable& variable, const std::string& value) {
  if (value == "1" || value == "true") return true;
  if (value == "0" || value == "false") return false;
  refuse(variable, value);
}

void check(const Variable& variable) {
  const std::string value = read(variable);
  if (value.empty()) return;
  if (variable.kind == Kind::kChoice) choice_of(variable, value);
  if (variable.kind == Kind::kFlag) flag_of(variable, value);
  if (variable.kind == Kind::kNumber) number_of(variable, value);
  if (variable.check == nullptr) return;
  try {
    variable.check(value);
  } catch (const UserError& error) {
    throw UserError(str("[environment] ", variable.name, ": ", error.what()), error.where());
  }
}

}  // namespace

const std::vector<Variable>& environment_variables() {
  static const std::vector<Variable> table = make_table();
  return table;
}

std::string environment_text(std::string_view name, std::string_view otherwise) {
  const Variable& variable = find(name);
  const std::string value = read(variable);
  if (value.empty()) return std::string(otherwise);
  return variable.kind == Kind::kChoice ? choice_of(variable, value) : value;
}

std::string environment_settings() {
  std::string lines;
  for (const Variable& variable : environment_variables()) {
    const std::string value = read(variable);
    if (!value.empty()) lines += str(variable.name, "=", value, "\n");
  }
  return lines;
}

bool environment_flag(std::string_view name) {
  const std::string value = read(find(name));
  return !value.empty() && flag_of(find(name), value);
}

int64_t environment_number(std::string_view name, int64_t otherwise) {
  const std::string value = read(find(name));
  return value.empty() ? otherwise : number_of(find(name), value);
}

std::vector<std::string> environment_names(std::string_view name) {
  std::vector<std::string> names;
  std::istringstream items(read(find(name)));
  for (std::string item; std::getline(items, item, ',');) {
    if (!item.empty()) names.push_back(item);
  }
  return names;
}

void check_environment() {
  for (const Variable& variable : environment_variables()) check(variable);
}

std::string environment_cure(std::string_view name) {
  const Variable& variable = find(name);
  std::string text = str("Set it to ");
  switch (variable.kind) {
    case Kind::kChoice:
      text += join(std::vector(variable.allowed.begin(), variable.allowed.end() - 1), ", ");
      text += str(" or ", variable.allowed.back());
      break;
    case Kind::kFlag:
      text += "0 or 1";
      break;
    case Kind::kNumber:
      text += str("a whole number from ", variable.least, " to ", variable.most);
      break;
    default:
      text += "something else";
  }
  return text + ", or unset it.";
}

}  // namespace poptorch::support
