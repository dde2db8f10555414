// Calls, loops and branches over graphs of the module.
#include <algorithm>
#include <iterator>

#include "ir/module.hpp"
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

const ir::Graph& callee(const InferContext& c, const char* attr) {
  const auto& reference = c.attr<ir::GraphRef>(attr);
  const ir::Graph* graph = c.module() ? c.module()->find_graph(reference.name) : nullptr;
  if (!graph) c.fail(str("there is no graph @", reference.name, "."));
  return *graph;
}

// Checks operands from `first` on as the graph's inputs; returns the types of its outputs.
std::vector<Type> call_types(const InferContext& c, const ir::Graph& graph, size_t first) {
  const size_t given = c.operand_count() - first;
  if (given != graph.inputs().size()) {
    c.fail(str("graph @", graph.name(), " takes ", graph.inputs().size(), " inputs but got ", given,
               "."));
  }
  for (size_t i = 0; i < given; ++i) {
    if (!(c.operand(first + i) == graph.inputs()[i]->type())) {
      c.fail(str("input ", i, " of graph @", graph.name(), " is ", graph.inputs()[i]->type(),
                 " but got ", c.operand(first + i), "."));
    }
  }
  std::vector<Type> out;
  for (const Value* value : graph.outputs()) out.push_back(value->type());
  return out;
}

bool is_floating(const Type& type) { return ir::is_float(type.dtype); }

// Checks a call's own gradient: (xs, results, gradients of the floating results) → gradients of the
// floating xs.
void check_gradient(const InferContext& c, const std::vector<Type>& results) {
  if (c.attr<ir::GraphRef>("gradient").name.empty()) return;
  const ir::Graph& gradient = callee(c, "gradient");
  std::vector<Type> takes, gives;
  for (size_t i = 0; i < c.operand_count(); ++i) takes.push_back(c.operand(i));
  std::copy_if(takes.begin(), takes.end(), std::back_inserter(gives), is_floating);
  takes.insert(takes.end(), results.begin(), results.end());
  std::copy_if(results.begin(), results.end(), std::back_inserter(takes), is_floating);
  auto fits = [](const auto& values, const std::vector<Type>& types) {
    return std::equal(values.begin(), values.end(), types.begin(), types.end(),
                      [](const auto& value, const Type& type) { return value->type() == type; });
  };
  if (fits(gradient.inputs(), takes) && fits(gradient.outputs(), gives)) return;
  c.fail(str("the gradient graph @", gradient.name(), " must take (", support::join(takes, ", "),
             ") and give (", support::join(gives, ", "), ")."));
}

std::vector<Type> infer_call(const InferContext& c) {
  std::vector<Type> results = call_types(c, callee(c, "graph"), 0);
  check_gradient(c, results);
  return results;
}

std::vector<Type> infer_repeat(const InferContext& c) {
  const ir::Graph& graph = callee(c, "graph");
  std::vector<Type> out = call_types(c, graph, 0);
  if (out.size() > graph.inputs().size()) {
    c.fail(str("graph @", graph.name(), " has more outputs than inputs to feed."));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!(out[i] == graph.inputs()[i]->type())) {
      c.fail(str("output ", i, " of graph @", graph.name(), " is ", out[i], " and feeds input ",
                 graph.inputs()[i]->type(), "."));
    }
  }
  return out;
}

std::vector<Type> infer_if(const InferContext& c) {
  if (c.operand(0) != Type{DType::kBool, {}}) c.fail("the condition must be one truth value.");
  std::vector<Type> yes = call_types(c, callee(c, "then"), 1);
  std::vector<Type> no = call_types(c, callee(c, "else"), 1);
  if (yes != no) c.fail("the branches return different types.");
  return yes;
}

}  // namespace

void add_call_ops(Registry& r) {
  const NoGradient by_autodiff{"autodiff differentiates the graph"};
  r.add({.name = "call",
         .doc = "Runs a graph on the operands. `gradient` names a graph of (operands, results, "
                "gradients of the floating results) → gradients of the floating operands, which "
                "autodiff calls instead of differentiating `graph`.",
         .role = Role::kCall,
         .inputs = {"xs: any*"},
         .outputs = {"ys*"},
         .attrs = {{"graph", AttrType::kGraph}, {"gradient", AttrType::kGraph, ir::GraphRef{}}},
         .infer = infer_call,
         .grad = by_autodiff,
         .cost = no_cost(),
         .popart_type = "Call"});
  r.add(
      {.name = "repeat",
       .doc = "Runs a graph `count` times; output i feeds input i of the next round.",
       .role = Role::kRegion,
       .inputs = {"xs: any*"},
       .outputs = {"ys*"},
       .attrs = {{"graph", AttrType::kGraph}, within({"count", AttrType::kInt}, 0, ir::kMaxRounds)},
       .infer = infer_repeat,
       .grad = by_autodiff,
       .cost = no_cost(),
       .popart_type = "Loop"});
  r.add({.name = "if",
         .doc = "Runs `then` or `else` on the operands after the condition.",
         .role = Role::kRegion,
         .inputs = {"condition: bool", "xs: any*"},
         .outputs = {"ys*"},
         .attrs = {{"then", AttrType::kGraph}, {"else", AttrType::kGraph}},
         .infer = infer_if,
         .grad = by_autodiff,
         .cost = no_cost(),
         .popart_type = "If"});
}

}  // namespace poptorch::ops
