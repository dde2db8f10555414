// What a model uses, from a trace alone: nothing is compiled, and nothing runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"

namespace poptorch::frontend {

struct UsedOp {
  std::string name;      // of our vocabulary; "aten::cross.default" of a foreign one
  bool foreign = false;  // a kernel that is none of ours: torch's, or a library's
  std::map<std::string, int64_t> places;  // how often, by line of the user's, "model.py:42"
};

struct UsedModule {
  std::string path;  // of which the ops' own module is
  int64_t ops = 0;
  int64_t activation_bytes = 0;  // of results, views aside
};

struct Explanation {
  std::vector<UsedOp> ops;  // the most frequent first
  std::vector<UsedModule> modules;
  std::vector<Refusal> refusals;
  std::string end;  // the error behind which there is no trace; "": there was none
};

// Errors that forward itself raises are passed on.
Explanation explain(const TraceRequest& request, const Forward& forward);

}  // namespace poptorch::frontend
