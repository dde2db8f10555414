// The text form: printer and parser. Laws: parse(print(m)) equals m; printing is stable.
//
//   state "fc.weight" : f32[10,784] {kind="parameter"}
//   stream "x" : f32[16,784] {to_device=true}
//   remote "rows" : f32[10] {entries=4}
//   graph @main(%x: f32[16,784], %acc: &f32[10]) -> (f32[]) {
//     %w = variable() {name="fc.weight"} : f32[10,784]
//     %y = linear(%x, %w, _) : f32[16,10] @[ipu=0 stage=0] scope("fc") loc("model.py":42)
//     %v, %i = topk(%y) {k=3} : f32[16,3], i32[16,3]
//     ^done = host_store(%y) {stream="y"}
//     %z = relu(%y) : f32[16,10] after(^done, %v)
//     %z_1 = tanh(%z) : f32[16,10] labels("{\"layer\": \"first\"}")
//     return %z_1
//   }
// `_` is an absent optional operand; `&` marks a by-reference input; `//` starts a comment. State
// declared only by its first `variable` op has kind "parameter". A label before a result-less op is
// printed only if something names it. `grad(%y)` marks a backward op of the op that makes %y,
// `grad` alone one of a deleted op. `#7` before an op is its id, which determines its random
// numbers. Graphs whose name is not plain are quoted (`@"f.<locals>.g"`). A nan in a constant that
// is not the usual one prints as its bits (`nan.ffc00001`). Text is UTF-8, names included.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::ir {

struct PrintOptions {
  bool locations = false;
  bool scopes = true;
  bool forwards = true;  // prints the forward op of backward ops
  bool ids = false;
  // Literals with more elements print as `dense<f32[100]: ...>`, which does not parse back.
  int64_t elide_literals_above = INT64_MAX;
};

// Prints everything that a module holds: read back, it compiles to bit-identical results.
constexpr PrintOptions kEverything{.locations = true, .ids = true};

std::string print(const Module& module, const PrintOptions& options = {});
std::string print(const Graph& graph, const PrintOptions& options = {});
// Returns the line of each op of all graphs, with its id; long literals are elided.
std::vector<std::pair<uint64_t, std::string>> op_lines(const Module& module);
// Prints one op as one line, for messages: names are as the graph would print them.
std::string print(const Op& op);

// Parses and verifies a module. UserError `[parse] origin:line:column: ...` for any other text;
// `origin` names it in messages.
std::unique_ptr<Module> parse(std::string_view text, const Registry& registry,
                              std::string_view origin = "text");

// Returns whether modules are equal up to names of values, ids and locations. On false, `why` names
// the first difference.
bool structurally_equal(const Module& a, const Module& b, std::string* why = nullptr);
// Returns whether modules have the same text with ids, names and locations, so that they compile to
// the same program.
bool identical(const Module& a, const Module& b);

}  // namespace poptorch::ir
