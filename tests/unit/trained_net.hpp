// A small network for training, and its optimiser.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "ir/optimiser_spec.hpp"

namespace poptorch {

// A weight on each of two IPUs, with dropout between them.
constexpr const char* kTrainedNet = R"(
state "w" : f32[4,4]
state "v" : f32[4,4]
graph @main(%x: f32[2,4]) -> (f32[]) {
  %w = variable() {name="w"} : f32[4,4] @[ipu=0 stage=0]
  %v = variable() {name="v"} : f32[4,4] @[ipu=1 stage=1]
  %h = linear(%x, %w, _) : f32[2,4] @[ipu=0 stage=0]
  %d, %mask = dropout(%h) {p=0.25} : f32[2,4], bool[2,4] @[ipu=0 stage=0]
  %y = linear(%d, %v, _) : f32[2,4] @[ipu=1 stage=1]
  %s = mul(%y, %y) : f32[2,4] @[ipu=1 stage=1]
  %m = mean(%s) {axes=[0,1]} : f32[] @[ipu=1 stage=1]
  %loss = identity_loss(%m) {reduction="none"} : f32[] @[ipu=1 stage=1]
  return %loss
}
)";

// Returns an optimiser of "w" and "v" with momentum. `variable`: values that may change between
// runs.
inline ir::OptimiserSpec momentum_sgd(std::set<std::string> variable = {}) {
  ir::OptimiserGroup group;
  group.values = {{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 0.0}, {"dampening", 0.0}};
  group.parameters = {"w", "v"};
  group.variable = std::move(variable);
  ir::OptimiserSpec spec;
  spec.kind = "sgd";
  spec.groups = {group};
  return spec;
}

}  // namespace poptorch
