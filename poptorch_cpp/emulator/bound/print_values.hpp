// Prints the storages and values of a plan or a code: see text.hpp.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "emulator/bound/values.hpp"

namespace poptorch::emulator {

class TablePrinter {
 public:
  TablePrinter(const ValueTable& table, const program::Program& program);

  // Lets print() print a value.
  void use(ValueId id);
  // Prints the storages of the values in use, and those of states and constants; then the values.
  void print(std::ostream& out);

  // Returns the value's name in the text, which no other value has.
  const std::string& plain_name(ValueId id) const { return names_[id]; }
  // Returns it with its layout: `%x:channels_last`, or `_` for an absent value.
  std::string name(ValueId id) const;
  std::string list(std::span<const ValueId> ids) const;

 private:
  void print(std::ostream& out, const Storage& storage, const Table<StorageId, int>& numbers) const;

  const ValueTable& table_;
  const program::Program& program_;
  Table<ValueId, std::string> names_;
  Table<ValueId, bool> used_;
};

}  // namespace poptorch::emulator
