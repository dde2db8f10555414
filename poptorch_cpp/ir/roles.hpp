// Reads the attributes of an op by its role: the slot, literal, IPU or graphs that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace poptorch::ir {

// Returns the slot whose memory is the op's result; nullptr for any other op, and for a null `op`.
const std::string* slot_of(const Op* op);
// Returns the constant that `value` is; nullptr for any other value.
const Literal* literal_of(const Value* value);
// Returns the IPU to which a copy between IPUs goes.
std::optional<int> target_ipu(const Op& op);

// A graph that an op names, and whether the op runs it: it does not run the gradient of a call.
struct NamedGraph {
  Symbol name;
  bool runs;
};
std::vector<NamedGraph> named_graphs(const Op& op);  // in the order of the op's attributes
// Takes an op that runs graphs; `i` counts the row's bodies. The first body of a region that
// chooses is for true.
Symbol body_name(const Op& op, size_t i = 0);
const Graph& body_of(const Op& op, size_t i = 0);  // InternalError for an unknown graph
// Returns the index of the operand that is the first input of the op's graphs.
size_t first_argument(const Op& op);
// A loop is a region of one graph, whose outputs feed its inputs round by round; in a choice,
// operand 0 chooses.
bool is_loop(const Op& op);
bool is_choice(const Op& op);
int64_t rounds_of(const Op& op);  // how often the op runs a graph: 1, or a loop's count

// Returns the graph that autodiff calls for the gradient of a call; empty if it must build one.
Symbol gradient_of(const Op& op);
// Returns whether pipelines keep the value for the backward pass instead of recomputing it.
bool is_checkpoint(const Op& op);

}  // namespace poptorch::ir
