// What an op of a role says in its attributes: the slot, literal, IPU or graphs that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace poptorch::ir {

// The slot whose memory is the op's result; nullptr for any other op, and for none.
const std::string* slot_of(const Op* op);
// The constant that `value` is; nullptr for any other value.
const Literal* literal_of(const Value* value);
// The IPU to which a copy between IPUs goes.
std::optional<int> target_ipu(const Op& op);

// A graph that an op names, and whether it runs it: the gradient of a call it does not.
struct NamedGraph {
  Symbol name;
  bool runs;
};
std::vector<NamedGraph> named_graphs(const Op& op);  // in the order of the op's attributes
// Of an op that runs graphs. `i` counts the row's: of a region that chooses, the first is for true.
Symbol body_name(const Op& op, size_t i = 0);
const Graph& body_of(const Op& op, size_t i = 0);  // InternalError when there is no such graph
// The operand that is the first input of the op's graphs.
size_t first_argument(const Op& op);
// A region of one graph, whose outputs feed its inputs round by round; else operand 0 chooses.
bool is_loop(const Op& op);
bool is_choice(const Op& op);
int64_t rounds_of(const Op& op);  // how often the op runs a graph: 1, or a loop's count

// The graph that autodiff calls for the gradient of a call; empty when it is to make its own.
Symbol gradient_of(const Op& op);
// Pipelines keep the value for the backward pass instead of computing it again.
bool is_checkpoint(const Op& op);

}  // namespace poptorch::ir
