// Lists what a model uses, from a trace alone: nothing is compiled or run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/torch/tracer/graph/tracer.hpp"

namespace poptorch::frontend {

struct UsedOp {
  std::string name;      // an op of the IR, or a foreign one, "aten::cross.default"
  bool foreign = false;  // has a kernel from outside the core: torch's, or a library's
  std::map<std::string, int64_t> places;  // how often, by the user's line, "model.py:42"
};

struct UsedModule {
  std::string path;  // of the innermost module of the ops
  int64_t ops = 0;
  int64_t activation_bytes = 0;  // of results, without those of views
};

struct Explanation {
  std::vector<UsedOp> ops;  // the most frequent first
  std::vector<UsedModule> modules;
  std::vector<Refusal> refusals;
  std::string end;  // the error that ended the trace; "" if none did
};

// Traces `forward`. Passes errors that forward itself raises on to the caller.
Explanation explain(const TraceRequest& request, const Forward& forward);

}  // namespace poptorch::frontend
