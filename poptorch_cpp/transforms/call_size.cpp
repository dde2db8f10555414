// Implements call_size.hpp: callees first, sums that stop growing where they are too large.
#include "transforms/call_size.hpp"

#include <algorithm>
#include <unordered_map>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using support::str;

constexpr int64_t kTooMany = int64_t{1} << 40;

class Sizes {
 public:
  explicit Sizes(const ir::Module& module) : module_(module) {}

  int64_t of(const Graph& graph) {
    const auto [known, is_new] = sizes_.emplace(&graph, 0);  // 0: a call of itself, for verify
    if (!is_new) return known->second;
    int64_t size = 0;
    for (const ir::Op* op : graph.ops()) {
      ++size;
      for (const auto& [key, value] : op->attrs()) {
        const auto* reference = std::get_if<ir::GraphRef>(&value);
        const Graph* callee = reference ? module_.find_graph(reference->name) : nullptr;
        if (callee) size = std::min(size + of(*callee), kTooMany);
      }
    }
    return sizes_[&graph] = size;
  }

 private:
  const ir::Module& module_;
  std::unordered_map<const Graph*, int64_t> sizes_;  // look-up only
};

// The called graph that contributes most, for the message.
std::string largest_call(const Graph& graph, Sizes& sizes) {
  std::unordered_map<const Graph*, int> calls;
  const Graph* largest = nullptr;
  for (const ir::Op* op : graph.ops()) {
    for (const auto& [key, value] : op->attrs()) {
      const auto* reference = std::get_if<ir::GraphRef>(&value);
      const Graph* callee = reference ? graph.module().find_graph(reference->name) : nullptr;
      if (!callee) continue;
      ++calls[callee];
      if (!largest || sizes.of(*callee) > sizes.of(*largest)) largest = callee;
    }
  }
  if (!largest) return "";
  return str(" Most are of @", largest->name(), ", which it calls ", calls[largest],
             calls[largest] == 1 ? " time." : " times.");
}

}  // namespace

void check_call_size(const ir::Module& module) {
  Sizes sizes(module);
  const Graph* main = module.find_graph("main");
  for (const auto& graph : module.graphs()) {
    if (main && graph.get() != main) continue;
    const int64_t size = sizes.of(*graph);
    if (size <= kMostOps) continue;
    const std::string ops = size >= kTooMany ? "more than a million million" : str(size);
    throw support::UserError(str(
        "[calls] graph @", graph->name(), " has ", ops, " ops when every call is replaced by ",
        "the graph that it calls, but ", kMostOps, " are the most.", largest_call(*graph, sizes),
        " Repeat a graph in a loop, whose body is there once, or call it less often."));
  }
}

}  // namespace poptorch::transforms
