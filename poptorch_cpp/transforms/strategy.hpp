// How a model that is spread over several IPUs runs on them.
#pragma once

#include <cstdint>

namespace poptorch::transforms {

enum class Strategy : uint8_t {
  kPipelined,  // stages work on different micro-batches at one time
  kSharded,    // one micro-batch at a time, one IPU after the other
};

}  // namespace poptorch::transforms
