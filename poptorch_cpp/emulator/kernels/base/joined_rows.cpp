#include "emulator/kernels/base/joined_rows.hpp"

#include <algorithm>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kBlockBytes = 64 << 10;  // of the widest held value

class JoinedRows final : public BoundKernel {
 public:
  JoinedRows(int64_t rows, std::vector<RowsPart> parts, const std::vector<int64_t>& held_bytes)
      : rows_(rows), parts_(std::move(parts)) {
    const int64_t widest =
        held_bytes.empty() ? kBlockBytes : *std::max_element(held_bytes.begin(), held_bytes.end());
    block_ = std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(widest, 1), 1, rows);
    place(held_bytes);
    for (const RowsPart& part : parts_) {
      part_scratch_ = std::max(part_scratch_, part.kernel->scratch_bytes());
      ns_ += part.kernel->estimated_ns();
    }
    tasks_ = parts_for(ns_, divide_up(rows_, block_));
  }
  int tasks(int) const override { return static_cast<int>(tasks_); }
  int64_t scratch_bytes() const override { return held_scratch_ + part_scratch_; }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range rows = part_of(rows_, tasks_, task);
    for (int64_t first = rows.begin; first < rows.end; first += block_) {
      run_block(args, first, std::min(first + block_, rows.end));
    }
  }

 private:
  struct Held {
    int64_t offset = 0, row_bytes = 0;  // in scratch
  };

  // Gives each held value a place in scratch from the first part that uses it to the last.
  void place(const std::vector<int64_t>& held_bytes) {
    held_.resize(held_bytes.size());
    std::vector<size_t> first(held_.size(), parts_.size()), last(held_.size(), 0);
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (int buffer : parts_[p].buffers) {
        if (buffer >= 0) continue;
        first[~buffer] = std::min(first[~buffer], p);
        last[~buffer] = p;
      }
    }
    std::vector<Held> free;
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (size_t h = 0; h < held_.size(); ++h) {
        if (first[h] == p) held_[h] = take(free, held_bytes[h]);
      }
      for (size_t h = 0; h < held_.size(); ++h) {
        if (last[h] == p) free.push_back(held_[h]);
      }
    }
  }

  Held take(std::vector<Held>& free, int64_t row_bytes) {
    const auto found = std::find_if(free.begin(), free.end(),
                                    [&](const Held& h) { return h.row_bytes == row_bytes; });
    if (found != free.end()) {
      const Held place = *found;
      free.erase(found);
      return place;
    }
    const Held place{held_scratch_, row_bytes};
    held_scratch_ += round_up(block_ * row_bytes, 64);
    return place;
  }

  void run_block(const KernelArgs& args, int64_t begin, int64_t end) const {
    std::byte* buffers[kMaxKernelBuffers];
    KernelArgs inner{.buffers = buffers,
                     .scratch = args.scratch + held_scratch_,
                     .workspace = nullptr,
                     .random = args.random};
    for (const RowsPart& part : parts_) {
      for (size_t i = 0; i < part.buffers.size(); ++i) {
        const int buffer = part.buffers[i];
        buffers[i] = buffer >= 0 ? args.buffers[buffer] : first_row(args, held_[~buffer], begin);
      }
      part.kernel->run_parts(inner, begin, end, rows_);
    }
  }

  // Returns where row 0 of a held value would be, of which row `begin` is the first in scratch.
  static std::byte* first_row(const KernelArgs& args, const Held& held, int64_t begin) {
    const auto at = reinterpret_cast<uintptr_t>(args.scratch + held.offset);
    return reinterpret_cast<std::byte*>(at - static_cast<uintptr_t>(begin * held.row_bytes));
  }

  int64_t rows_;
  std::vector<RowsPart> parts_;
  std::vector<Held> held_;
  int64_t block_ = 1, tasks_ = 1, ns_ = 0;
  int64_t held_scratch_ = 0, part_scratch_ = 0;
};

}  // namespace

std::unique_ptr<BoundKernel> join_rows_of(int64_t rows, std::vector<RowsPart> parts,
                                          const std::vector<int64_t>& held_bytes) {
  return std::make_unique<JoinedRows>(rows, std::move(parts), held_bytes);
}

}  // namespace poptorch::emulator
