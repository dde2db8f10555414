// One sweep over the allocations finds overlaps.
#include "program/replay.hpp"

#include <algorithm>
#include <map>
#include <queue>

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
    std::map<int64_t, TensorId> live;  // by offset
    for (const Allocation& one : allocations) {
      for (; !deaths.empty() && deaths.top().first < one.begin; deaths.pop()) {
        live.erase(deaths.top().second);
      }
      const int64_t offset = tensor(one.id).offset;
      auto after = live.lower_bound(offset);
      if (after != live.end() && after->first < end_of(tensor(one.id))) {
        fail_overlap(one.id, after->second);
      }
      if (after != live.begin() && end_of(tensor(std::prev(after)->second)) > offset) {
        fail_overlap(one.id, std::prev(after)->second);
      }
      live.emplace(offset, one.id);
      deaths.emplace(one.end, offset);
    }
  }

 private:
  const Tensor& tensor(TensorId id) const { return program_.tensors[id]; }

  [[noreturn]] void fail_overlap(TensorId a, TensorId b) const {
    throw support::InternalError(support::str(
        "[program] %", tensor(a).name, " and %", tensor(b).name, " overlap in the arena of IPU ",
        ipu_, " while both are live: [", tensor(a).offset, ", ", end_of(tensor(a)), ") and [",
        tensor(b).offset, ", ", end_of(tensor(b)), ")."));
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
