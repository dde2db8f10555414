// Computes collectives of one process.
#include "emulator/collectives/collective.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/collectives/fold.hpp"
#include "emulator/host/pool.hpp"

namespace poptorch::emulator {

namespace {

constexpr int64_t kTaskElements = int64_t{1} << 15;  // of a reduction

}  // namespace

Collective::Collective(const CollectiveSpec& spec, int members, Pool* pool, int first_rank)
    : spec_(spec),
      pool_(pool),
      operands_(static_cast<size_t>(members)),
      results_(static_cast<size_t>(members)),
      first_rank_(first_rank) {}

int64_t Collective::arrive(int rank, const std::byte* operand, std::byte* result) {
  std::lock_guard lock(mutex_);
  const int64_t ticket = round_.load(std::memory_order_relaxed);
  const auto place = static_cast<size_t>(rank - first_rank_);
  operands_[place] = operand;
  results_[place] = result;
  if (++arrived_ == static_cast<int>(operands_.size()) && compute()) finish_round();
  return ticket;
}

void Collective::finish_round() {
  arrived_ = 0;
  round_.fetch_add(1, std::memory_order_release);
}

bool Collective::compute() {
  const auto ranks = static_cast<int64_t>(operands_.size());
  const int64_t bytes = spec_.elements * ir::size_of(spec_.dtype);
  if (spec_.kind == CollectiveKind::kAllGather) {
    for (std::byte* result : results_) {
      for (int64_t r = 0; r < ranks; ++r) {
        std::memcpy(result + r * bytes, operands_[r], static_cast<size_t>(bytes));
      }
    }
  } else if (spec_.kind == CollectiveKind::kAllToAll) {
    const int64_t row = bytes / ranks;
    for (int64_t to = 0; to < ranks; ++to) {
      for (int64_t from = 0; from < ranks; ++from) {
        std::memcpy(results_[to] + from * row, operands_[from] + to * row,
                    static_cast<size_t>(row));
      }
    }
  } else if (spec_.reduction == Reduction::kLocal) {
    const int64_t part = spec_.kind == CollectiveKind::kReduceScatter ? bytes / ranks : bytes;
    for (int64_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<size_t>(r);
      const int64_t start = part == bytes ? 0 : r * part;
      std::memcpy(results_[rank], operands_[rank] + start, static_cast<size_t>(part));
    }
  } else if (spec_.kind == CollectiveKind::kReduceScatter) {
    const int64_t part = bytes / ranks;
    for (int64_t r = 0; r < ranks; ++r) {
      reduce(r * part, spec_.elements / ranks, {results_[r]});
    }
  } else {
    reduce(0, spec_.elements, results_);
  }
  return true;
}

// Splits the elements over tasks. The results are bit-identical for any number of tasks.
void Collective::reduce(int64_t from, int64_t elements, const std::vector<std::byte*>& into) {
  const Fold fold(spec_.dtype, spec_.reduction);
  std::vector<const std::byte*> operands;
  for (const std::byte* operand : operands_) operands.push_back(operand + from);
  const auto ranks = static_cast<int64_t>(operands.size());
  const int64_t size = ir::size_of(spec_.dtype);
  auto task = [&](int number, int /*worker*/) {
    const int64_t first = number * kTaskElements;
    const int64_t count = std::min(kTaskElements, elements - first);
    std::byte* const result = into[0] + first * size;
    fold.finish({.operands = operands, .first = first, .elements = count}, result, ranks);
    for (size_t i = 1; i < into.size(); ++i) {
      std::memcpy(into[i] + first * size, result, static_cast<size_t>(count * size));
    }
  };
  const auto tasks = static_cast<int>((elements + kTaskElements - 1) / kTaskElements);
  if (pool_) return pool_->run(tasks, task);
  for (int i = 0; i < tasks; ++i) task(i, 0);
}

}  // namespace poptorch::emulator
