// One sweep over the allocations finds overlaps.
#include "program/replay.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <string>

#include "program/stays.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

class Sweep {
 public:
  Sweep(const Program& program, int ipu) : program_(program), ipu_(ipu) {}

  void check_overlaps(const std::vector<Allocation>& allocations) const {
    using Death = std::pair<int64_t, int64_t>;  // end of life, offset
    std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths;
    std::map<int64_t, const Allocation*> live;  // by offset
    for (const Allocation& one : allocations) {
      for (; !deaths.empty() && deaths.top().first < one.begin; deaths.pop()) {
        live.erase(deaths.top().second);
      }
      auto after = live.lower_bound(one.offset);
      if (after != live.end() && after->first < end_of(one)) fail_overlap(one, *after->second);
      if (after != live.begin() && end_of(*std::prev(after)->second) > one.offset) {
        fail_overlap(one, *std::prev(after)->second);
      }
      live.emplace(one.offset, &one);
      deaths.emplace(one.end, one.offset);
    }
  }

 private:
  static int64_t end_of(const Allocation& one) { return one.offset + one.bytes; }

  std::string text_of(const Allocation& one) const {
    if (one.id == kNoTensor) return support::str("temporary data at position ", one.begin);
    return "%" + program_.tensors[one.id].name.text();
  }

  [[noreturn]] void fail_overlap(const Allocation& a, const Allocation& b) const {
    throw support::InternalError(support::str("[program] ", text_of(a), " and ", text_of(b),
                                              " overlap in the arena of IPU ", ipu_,
                                              " while both are live: [", a.offset, ", ", end_of(a),
                                              ") and [", b.offset, ", ", end_of(b), ")."));
  }

  const Program& program_;
  int ipu_;
};

}  // namespace

int64_t replay_arena(const Program& program, int ipu) {
  const Stays stays = stays_of(program, ipu);
  Sweep(program, ipu).check_overlaps(stays.allocations);
  return stays.peak;
}

}  // namespace poptorch::program
