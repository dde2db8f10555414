// Adds the values that the user asked for by name to @main's outputs, after the existing ones.
#include <map>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using Named = std::map<std::string, Value*>;

// Matches shell patterns: `*` is any text, `?` any character.
bool matches(std::string_view pattern, std::string_view name) {
  size_t at = 0;
  size_t star = pattern.size(), resume = 0;  // the last `*`, and where its text ends so far
  for (size_t i = 0; i < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[i])) {
      ++at, ++i;
    } else if (star < pattern.size()) {  // the `*` takes one more
      at = star + 1;
      i = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

void anchor(ir::Module& module, const Named& named) {
  ir::Execution& execution = module.execution();
  for (const auto& [name, value] : named) {
    for (size_t i = 0; i < execution.anchors.size(); ++i) {
      if (!matches(execution.anchors[i].name, name)) continue;
      execution.anchored.push_back({name, static_cast<int64_t>(i)});
      module.main().add_output(value);
    }
  }
}

Named values_of(Graph& main) {
  Named named;
  for (size_t i = 0; i < main.inputs().size(); ++i) {
    named["input" + std::to_string(i)] = main.inputs()[i].get();
  }
  for (Op* op : main.ops()) {
    if (op->result_count() == 0 || op->def().is_leaf()) continue;
    if (op->role() == ir::Role::kLoss) named["loss"] = op->result();
    // "encoder.layer.0" is also within "encoder" and "encoder.layer".
    for (std::string path = op->scope.text(); !path.empty();) {
      named[path] = op->result();
      const size_t dot = path.rfind('.');
      path = dot == std::string::npos ? "" : path.substr(0, dot);
    }
  }
  return named;
}

Named gradients_of(Graph& main) {
  Named named;
  for (Op* op : main.ops()) {
    if (op->role() != ir::Role::kGradient) continue;
    named["Gradient___" + op->attr<std::string>("parameter")] = op->operand(0);
  }
  return named;
}

}  // namespace

void anchor_values(ir::Module& module) {
  if (!module.execution().anchors.empty()) anchor(module, values_of(module.main()));
}

void anchor_gradients(ir::Module& module) {
  const ir::Execution& execution = module.execution();
  if (!execution.anchors.empty() && execution.training) anchor(module, gradients_of(module.main()));
}

std::vector<std::string> anchor_names(const ir::Module& traced) {
  const auto module = traced.clone();
  inline_calls(*module);
  std::vector<std::string> names;
  auto add = [&](const Named& named) {
    for (const auto& [name, value] : named) names.push_back(name);
  };
  add(values_of(module->main()));
  differentiate(*module);
  add(gradients_of(module->main()));
  return names;
}

}  // namespace poptorch::transforms
