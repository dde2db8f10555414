// Chooses the cases of a long test that a run takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace poptorch {

// Takes all cases, or about one in POPTORCH_ONE_IN. With the sanitizers all of them take minutes:
// CI runs a part of them, the nightly all.
class Sample {
 public:
  // Takes about one case in `most` where POPTORCH_ONE_IN asks for fewer.
  explicit Sample(int most = 1000) : one_in_(static_cast<uint32_t>(std::min(given(), most))) {}

  // Hashes the number of the case: cases that come at regular distances have equal chances.
  bool takes() { return (cases_++ * 2654435761u >> 16) % one_in_ == 0; }

 private:
  static int given() {
    const char* text = std::getenv("POPTORCH_ONE_IN");
    return text ? std::max(1, std::atoi(text)) : 1;
  }
  const uint32_t one_in_;
  uint32_t cases_ = 0;
};

}  // namespace poptorch
