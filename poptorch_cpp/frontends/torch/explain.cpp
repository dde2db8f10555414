#include "frontends/torch/explain.hpp"

#include <algorithm>

#include "ir/op_def.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;

std::string name_of(const ir::Op& op) {
  if (op.role() != ir::Role::kOpaque) return op.name();
  if (op.attrs().find("schema")) return op.attr<std::string>("schema");
  return str(op.attr<std::string>("domain"), ".", op.attr<std::string>("name"));
}

std::string line_of(const ir::Location& location) {
  return location.empty() ? "an unknown line" : str(location.file, ":", location.line);
}

class Counts {
 public:
  explicit Counts(const Tracer& tracer) : tracer_(tracer) {}

  void add(const ir::Graph& graph) {
    for (const ir::Op* op : graph.ops()) {
      if (!op->def().is_leaf() && !op->def().mark && !tracer_.is_stand_in(op)) add(*op);
    }
  }

  std::vector<UsedOp> ops() const {
    std::vector<UsedOp> sorted;
    for (const auto& [name, op] : ops_) sorted.push_back(op);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const UsedOp& a, const UsedOp& b) { return times(a) > times(b); });
    return sorted;
  }

  std::vector<UsedModule> modules() const {
    std::vector<UsedModule> all;
    for (const auto& [path, module] : modules_) all.push_back(module);
    return all;
  }

 private:
  static int64_t times(const UsedOp& op) {
    int64_t sum = 0;
    for (const auto& [place, count] : op.places) sum += count;
    return sum;
  }

  void add(const ir::Op& op) {
    const std::string name = name_of(op);
    UsedOp& used = ops_[name];
    used.name = name;
    used.foreign = op.role() == ir::Role::kOpaque;
    ++used.places[line_of(op.location)];
    UsedModule& module = modules_[op.scope.text()];
    module.path = op.scope.text();
    ++module.ops;
    if (op.def().is_view()) return;
    for (size_t i = 0; i < op.result_count(); ++i) {
      module.activation_bytes += op.result(i)->type().bytes();
    }
  }

  const Tracer& tracer_;
  std::map<std::string, UsedOp> ops_;
  std::map<std::string, UsedModule> modules_;
};

}  // namespace

Explanation explain(const TraceRequest& request, const Forward& forward) {
  Explanation result;
  Tracer tracer(request);
  try {
    tracer.run(forward);
  } catch (const std::exception& error) {
    if (!tracer.is_cause_of(error.what())) throw;
    result.end = tracer.error_text();
  }
  Counts counts(tracer);
  for (const auto& graph : tracer.module().graphs()) counts.add(*graph);
  result.ops = counts.ops();
  result.modules = counts.modules();
  result.refusals = tracer.refusals().all();
  return result;
}

}  // namespace poptorch::frontend
