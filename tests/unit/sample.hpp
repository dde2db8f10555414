// Chooses the cases of a long test that a run takes.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace poptorch {

// Takes all cases, or one in POPTORCH_ONE_IN. With the sanitizers all of them take minutes: CI runs
// a part of them, the nightly all.
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
