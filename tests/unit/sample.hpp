// Which cases of a long test a run takes.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace poptorch {

// Takes all that it is asked about, or one in POPTORCH_ONE_IN: under the sanitizers, where all of
// them take minutes, CI runs a part and the nightly everything.
class Sample {
 public:
  bool takes() { return cases_++ % one_in_ == 0; }

 private:
  static int given() {
    const char* text = std::getenv("POPTORCH_ONE_IN");
    return text ? std::max(1, std::atoi(text)) : 1;
  }
  const int one_in_ = given();
  int cases_ = 0;
};

}  // namespace poptorch
