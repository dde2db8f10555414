// Values that the user asked for by name become outputs of @main, behind its own.
#include <map>

#include "ir/builder.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using Named = std::map<std::string, Value*>;

// Shell patterns: * is any text, ? any character.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= name.size(); ++skip) {
      if (matches(pattern.substr(1), name.substr(skip))) return true;
    }
    return false;
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches(pattern.substr(1), name.substr(1));
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
    if (op->result_count() == 0 || op->is("variable") || op->is("constant")) continue;
    if (op->is("identity_loss")) named["loss"] = op->result();
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
    if (!op->is("parameter_gradient")) continue;
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
