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

void anchor(Graph& main, const Named& named, PassContext& context) {
  for (const auto& [name, value] : named) {
    context.anchor_names.push_back(name);
    for (size_t i = 0; i < context.anchors.size(); ++i) {
      if (!matches(context.anchors[i], name)) continue;
      context.anchored.emplace_back(i, name);
      main.add_output(value);
    }
  }
}

}  // namespace

void anchor_values(ir::Module& module, PassContext& context) {
  if (context.anchors.empty()) return;
  Graph& main = module.main();
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
  anchor(main, named, context);
}

void anchor_gradients(ir::Module& module, PassContext& context) {
  if (context.anchors.empty() || !context.training) return;
  Named named;
  for (Op* op : module.main().ops()) {
    if (!op->is("parameter_gradient")) continue;
    named["Gradient___" + op->attr<std::string>("parameter")] = op->operand(0);
  }
  anchor(module.main(), named, context);
}

}  // namespace poptorch::transforms
