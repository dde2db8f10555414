// Moments of an optimiser fade into denormal numbers, on which a host is up to fifty times slower.
// An update treats denormals as zero where they cannot affect a weight.
#pragma once

#include "support/processor.hpp"

namespace poptorch::emulator {

class FlushDenormals {
 public:
  explicit FlushDenormals(bool flush) : flush_(flush) {
    if (!flush_) return;
    before_ = Control::read();
    Control::write(before_ | Control::kFlush);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
  ~FlushDenormals() {
    if (flush_) Control::write(before_);
  }

 private:
  using Control = support::DenormalControl;
  bool flush_;
  uint64_t before_ = 0;
};

}  // namespace poptorch::emulator
