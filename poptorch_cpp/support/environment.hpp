// The table of every environment variable that this project reads. The core, the Python layer and
// the documentation take names, values and texts from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poptorch::support {

// The instruction sets that kernels can be compiled for (POPTORCH_SETS; AVX512_BF16 and AVX512_AMX
// belong to AVX512), and the values of POPTORCH_MAX_CPU_ISA. Each includes those before it, but
// NEON.
constexpr std::string_view kInstructionSets[] = {"SSE4",        "AVX2",       "AVX512",
                                                 "AVX512_BF16", "AVX512_AMX", "NEON"};

struct Variable {
  enum class Kind : uint8_t {
    kText,    // checked by the code that reads it
    kChoice,  // one of `allowed`, in any case of letters
    kFlag,    // 0, 1, false, true
    kNumber,  // a whole number from `least` to `most`
    kNames,   // several, separated by commas
  };
  std::string_view name;
  Kind kind;
  std::string_view doc;
  std::vector<std::string_view> allowed = {};
  std::vector<std::string_view> also = {};  // accepted, but not advertised
  int64_t least = 0, most = 0;
  bool has_effect = true;
  void (*check)(std::string_view text) = nullptr;  // for kText: throws UserError for a bad text
};

const std::vector<Variable>& environment_variables();

// Return the value of a variable of the table, or `otherwise` if it is unset or empty. A choice is
// spelt as in the table. Throw UserError, with the name, the value and what is allowed, for a value
// that the table does not accept.
std::string environment_text(std::string_view name, std::string_view otherwise = "");
bool environment_flag(std::string_view name);
int64_t environment_number(std::string_view name, int64_t otherwise);
std::vector<std::string> environment_names(std::string_view name);

// Returns a line `name=value` for each variable of the table that is set.
std::string environment_settings();

// Throws UserError for the first variable of the table whose value the table does not accept.
void check_environment();

// Returns how to correct a variable of the table, such as "Set it to 1 or 2, or unset it."
std::string environment_cure(std::string_view name);

}  // namespace poptorch::support
