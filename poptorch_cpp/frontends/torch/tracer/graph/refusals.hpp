// What a model uses that we do not have. The trace goes on with stand-ins of its results, so that
// one error, at the end, tells all of it.
#pragma once

#include <map>
#include <source_location>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {

struct Refusal {
  std::string op;                     // "aten::cauchy"
  std::string reason;                 // why, and what to do
  std::map<std::string, int> places;  // how often, by line of the user's, "model.py:42"
};

// Of what ends a trace.
constexpr const char* kBehindEnd = " The trace ended there: ops behind it were not looked at.";

class Refusals {
 public:
  void add(const std::string& op, const support::UnsupportedError& error,
           const ir::Location& location);
  bool empty() const { return refusals_.empty(); }
  const std::vector<Refusal>& all() const { return refusals_; }
  // UnsupportedError: the error itself where it was the only one. `end`: the text of another one,
  // behind which the trace could not go on.
  [[noreturn]] void raise(const std::string& end = "") const;

 private:
  std::vector<Refusal> refusals_;  // in the order of the program
  std::string first_text_;
  std::source_location first_where_;
};

}  // namespace poptorch::frontend
