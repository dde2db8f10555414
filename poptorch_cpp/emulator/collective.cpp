// Computes collectives of one process.
#include "emulator/collective.hpp"

#include <cstring>

#include "emulator/fold.hpp"

namespace poptorch::emulator {

Collective::Collective(const CollectiveSpec& spec, int members, int first_rank)
    : spec_(spec),
      operands_(static_cast<size_t>(members)),
      results_(static_cast<size_t>(members)),
      first_rank_(first_rank) {}

int64_t Collective::arrive(int rank, const std::byte* operand, std::byte* result) {
  std::lock_guard lock(mutex_);
  const int64_t ticket = round_;
  const auto place = static_cast<size_t>(rank - first_rank_);
  operands_[place] = operand;
  results_[place] = result;
  if (++arrived_ == static_cast<int>(operands_.size()) && compute()) finish_round();
  return ticket;
}

void Collective::finish_round() {
  arrived_ = 0;
  ++round_;
}

bool Collective::is_done(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return round_ > ticket;
}

bool Collective::compute() {
  const auto ranks = static_cast<int64_t>(operands_.size());
  const int64_t bytes = spec_.elements * ir::size_of(spec_.dtype);
  if (spec_.op == "all_gather") {
    for (std::byte* result : results_) {
      for (int64_t r = 0; r < ranks; ++r) {
        std::memcpy(result + r * bytes, operands_[static_cast<size_t>(r)],
                    static_cast<size_t>(bytes));
      }
    }
  } else if (spec_.op == "all_to_all") {
    const int64_t row = bytes / ranks;
    for (int64_t to = 0; to < ranks; ++to) {
      for (int64_t from = 0; from < ranks; ++from) {
        std::memcpy(results_[static_cast<size_t>(to)] + from * row,
                    operands_[static_cast<size_t>(from)] + to * row, static_cast<size_t>(row));
      }
    }
  } else if (spec_.reduce == "local") {
    const int64_t part = spec_.op == "reduce_scatter" ? bytes / ranks : bytes;
    for (int64_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<size_t>(r);
      const int64_t start = part == bytes ? 0 : r * part;
      std::memcpy(results_[rank], operands_[rank] + start, static_cast<size_t>(part));
    }
  } else if (spec_.op == "reduce_scatter") {
    const int64_t part = bytes / ranks;
    for (int64_t r = 0; r < ranks; ++r) {
      std::vector<const std::byte*> parts;
      for (const std::byte* operand : operands_) parts.push_back(operand + r * part);
      reduce_ranks(spec_.dtype, spec_.reduce, parts, results_[static_cast<size_t>(r)],
                   spec_.elements / ranks);
    }
  } else {
    reduce_ranks(spec_.dtype, spec_.reduce, operands_, results_[0], spec_.elements);
    for (int64_t r = 1; r < ranks; ++r) {
      std::memcpy(results_[static_cast<size_t>(r)], results_[0], static_cast<size_t>(bytes));
    }
  }
  return true;
}

int rank_in_group(int replica, int size, int stride) {
  if (size == 0) return replica;
  return replica / stride % size;
}

}  // namespace poptorch::emulator
