// Collects the unsupported ops of a model. The trace continues with stand-ins for their results, so
// that one error at the end reports all of them.
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
  std::map<std::string, int> places;  // how often, by the user's line, "model.py:42"
};

// Ends the message of an error that stops a trace.
constexpr const char* kBehindEnd = " The trace ended there: later ops were not examined.";

class Refusals {
 public:
  void add(const std::string& op, const support::UnsupportedError& error,
           const ir::Location& location);
  bool empty() const { return refusals_.empty(); }
  const std::vector<Refusal>& all() const { return refusals_; }
  // Throws UnsupportedError: the error itself if it is the only one. `end` is the text of another
  // error, after which the trace could not continue.
  [[noreturn]] void raise(const std::string& end = "") const;

 private:
  std::vector<Refusal> refusals_;  // in the order of the program
  std::string first_text_;
  std::source_location first_where_;
};

}  // namespace poptorch::frontend
