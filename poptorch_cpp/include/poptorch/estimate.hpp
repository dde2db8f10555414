// The memory and the time that a model would need on a machine, which need not exist.
#pragma once

#include <cstdint>
#include <string>

#include "poptorch/report.hpp"

namespace poptorch {

struct Estimate {
  Report report;
  int64_t samples_per_run = 0;  // of all replicas
  double samples_per_second = 0;
  bool fits = true;  // every IPU, and Streaming Memory
  // "memory" or "streaming memory" if the model does not fit. Else the kind of work with the
  // largest share of the time of all IPUs: "compute", "link", "gateway", "host", "streaming", or
  // "idle", if IPUs wait for others.
  std::string limiting_factor;

  // Returns a table with a line for each IPU.
  std::string str() const;
};

}  // namespace poptorch
