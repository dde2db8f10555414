// Every environment variable that this project reads, as one table: the core, the Python layer and
// the documentation take names, values and texts from here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poptorch::support {

struct Variable {
  enum class Kind : uint8_t {
    kText,    // checked by whoever reads it
    kChoice,  // one of `allowed`, in any case of letters
    kFlag,    // 0, 1, false, true
    kNumber,  // a whole number from `least` to `most`
    kNames,   // several, separated by commas
  };
  std::string_view name;
  Kind kind;
  std::string_view doc;
  std::vector<std::string_view> allowed = {};
  std::vector<std::string_view> also = {};  // taken, but not advertised
  int64_t least = 0, most = 0;
  bool has_effect = true;
  void (*check)(std::string_view text) = nullptr;  // of kText: UserError for what it does not take
};

const std::vector<Variable>& environment_variables();

// The value of a variable of the table, a choice as the table spells it, or `otherwise` where it is
// unset or empty. UserError, with the name, the value and what is allowed, for a value that the
// table does not take.
std::string environment_text(std::string_view name, std::string_view otherwise = "");
bool environment_flag(std::string_view name);
int64_t environment_number(std::string_view name, int64_t otherwise);
std::vector<std::string> environment_names(std::string_view name);

// UserError for the first variable of the table that has a value which it does not take.
void check_environment();

// "Set POPTORCH_X to 1 or 2, or unset it." of a variable of the table.
std::string environment_cure(std::string_view name);

}  // namespace poptorch::support
