// Prefix beam search over the classes of one sequence, for the kernels of ctc_beam_search.
//
// A prefix is a path without blanks and repetitions. Alignments that end in a blank and other
// alignments have separate probabilities: after a blank, the prefix's last class begins again.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace poptorch::reference {

class Beam {
 public:
  Beam(int64_t classes, int64_t blank, int64_t width);

  // `scores`: log probabilities of the classes at the next time.
  void advance(const double* scores);
  // Returns at most `count` paths, best first: log probability and classes.
  std::vector<std::pair<double, std::vector<int64_t>>> paths(size_t count) const;

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();
  static constexpr int32_t kRoot = 0;

  static double log_sum(double a, double b) {
    const double most = a > b ? a : b, least = a > b ? b : a;
    return most == kNever ? kNever : most + std::log1p(std::exp(least - most));
  }
  // Prefixes share their beginnings: each consists of its parent and a class.
  struct Prefix {
    int32_t parent = -1, last = -1;
  };
  // A prefix in the beam, or an extension of one by a class, which is not numbered yet.
  struct Candidate {
    int32_t prefix = -1;
    int32_t parent = -1, last = -1;
    double blank = kNever, other = kNever;
    double total() const { return log_sum(blank, other); }
  };
  const Prefix& prefix_of(const Candidate& path) const { return prefixes_[path.prefix]; }
  void keep_best(std::vector<Candidate> next);
  int32_t number_of(int32_t parent, int32_t last);

  const int32_t classes_, blank_;
  const size_t width_;
  std::vector<Candidate> beam_;
  std::vector<Prefix> prefixes_ = {{}};
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers_;
};

}  // namespace poptorch::reference
