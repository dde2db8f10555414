// Builds the rows of a program's instructions.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "account/table.hpp"
#include "program/program.hpp"
#include "support/table.hpp"

namespace poptorch::account {

// A table with one row an instruction: all of one IPU, then the next, each depth first.
class Instructions {
 public:
  Instructions(const program::Program& program, Strings& strings);

  const Table& table() const { return table_; }
  Table take() { return std::move(table_); }
  int64_t row_of(const program::Instruction* instruction) const { return rows_.at(instruction); }
  const program::Instruction& at(int64_t row) const { return *all_[row]; }
  // Returns the rows of an IPU: the first, and one past the last.
  std::pair<int64_t, int64_t> of_ipu(size_t ipu) const { return ranges_[ipu]; }
  // Returns the row of the first instruction that writes a tensor; -1 if none does.
  int64_t maker(program::TensorId id) const { return makers_[id]; }

 private:
  void add_block(const std::vector<program::Instruction>& block, int64_t times, int64_t parent);
  void add(const program::Instruction& instruction, int64_t times, int64_t parent);

  const program::Program& program_;
  Strings& strings_;
  Table table_;
  int64_t ipu_ = 0;
  std::vector<const program::Instruction*> all_;
  std::unordered_map<const program::Instruction*, int64_t> rows_;  // look-up only
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  support::Table<program::TensorId, int64_t> makers_;
};

}  // namespace poptorch::account
