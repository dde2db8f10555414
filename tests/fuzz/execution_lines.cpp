// Lines of a module's execution, from the table of its options.
#include <random>

#include "ir/execution.hpp"
#include "ir/option_table.hpp"
#include "lowering/strategy.hpp"
#include "support/strings.hpp"
#include "targets.hpp"

namespace poptorch::fuzz {
namespace {

using support::str;

std::string in_quotes(std::string_view text) { return str('"', text, '"'); }

class Line {
 public:
  explicit Line(uint64_t seed) : random_(seed) {}

  std::string run() {
    const std::string keyword = table()[below(table().size())].keyword;
    std::string text = keyword;
    if (keyword != "execution") text += " " + in_quotes(name(keyword));
    text += " {";
    for (const ir::OptionText& option : table()) {
      if (option.keyword == keyword && below(3) == 0) {
        text += str(text.back() == '{' ? "" : ", ", option.name, "=", value(option));
      }
    }
    if (keyword == "optimiser_group") text += str(text.back() == '{' ? "" : ", ", "lr=0.125");
    return text + "}\n";
  }

 private:
  static const std::vector<ir::OptionText>& table() {
    static const std::vector<ir::OptionText> all = ir::execution_table();
    return all;
  }

  size_t below(size_t n) { return random_() % n; }
  std::string one_of(const std::vector<std::string>& list) { return list[below(list.size())]; }

  std::string name(const std::string& keyword) {
    if (keyword == "location") {
      return one_of({"weights", "activations", "optimiser_state", "accumulators"});
    }
    if (keyword == "optimiser") return one_of({"sgd", "adam", "adamw", "rmsprop", "lamb"});
    return one_of({"w", "b", "x", "*", "a*", "loss", "input0", "Gradient___*", "0"});
  }

  // Mostly of the option's kind, and mostly small.
  std::string value(const ir::OptionText& option) {
    if (below(16) == 0) return one_of({"true", "-1", "0", "1.5", "\"x\"", "[]", "f16", "nan"});
    if (option.name == "strategy") {
      return in_quotes(lowering::strategies()[below(lowering::strategies().size())].name);
    }
    if (option.name == "device") return one_of({"\"ipu1\"", "\"ipu2-small\"", "\"ipu21\""});
    if (option.type.starts_with("bool")) return one_of({"true", "false"});
    if (option.type == "strings") return one_of({"[]", "[\"w\"]", "[\"lr\"]", "[\"w\",\"b\"]"});
    if (option.type == "str") {
      return in_quotes(option.limits.words.empty() ? "" : one_of(option.limits.words));
    }
    if (option.type == "dtype") return one_of({"f16", "f32", "bf16", "f64", "i32"});
    return one_of({"0", "1", "1", "2", "2", "3", "4", "6", "8", "64", "1048576", "1073741824"});
  }

  std::mt19937_64 random_;
};

}  // namespace

std::string execution_line(uint64_t seed) { return Line(seed).run(); }

}  // namespace poptorch::fuzz
