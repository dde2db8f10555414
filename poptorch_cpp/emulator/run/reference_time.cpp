#include "emulator/run/reference_time.hpp"

#include <algorithm>
#include <cmath>

#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr double kWorthTelling = 0.05;  // of a run

}  // namespace

ReferenceTime::ReferenceTime(std::vector<std::string> ops)
    : ops_(std::move(ops)), run_(ops_.size()), all_(ops_.size()), told_(ops_.size()) {}

void ReferenceTime::finish_run(double seconds, int lanes) {
  const int64_t whole = nanoseconds(seconds * lanes);
  whole_ += whole;
  for (size_t i = 0; i < ops_.size(); ++i) {
    const int64_t spent = run_[i].exchange(0);
    all_[i] += spent;
    const double share = static_cast<double>(spent) / static_cast<double>(whole);
    if (told_[i] || !(share > kWorthTelling)) continue;
    told_[i] = true;
    support::log(
        support::LogLevel::kWarn,
        support::str("[run] ", std::lround(100 * share), " % of the run was spent in '", ops_[i],
                     "', which has no fast kernel for these dtypes and shapes. Results are "
                     "correct; replace the op if speed matters."));
  }
}

std::vector<std::pair<std::string, double>> ReferenceTime::shares() const {
  std::vector<std::pair<std::string, double>> shares;
  const auto whole = static_cast<double>(std::max<int64_t>(whole_, 1));
  for (size_t i = 0; i < ops_.size(); ++i) {
    shares.emplace_back(ops_[i], static_cast<double>(all_[i]) / whole);
  }
  return shares;
}

}  // namespace poptorch::emulator
