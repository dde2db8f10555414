#include "emulator/bound/print_values.hpp"

#include <ostream>

#include "emulator/bound/text.hpp"
#include "program/items.hpp"
#include "program/program.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

std::vector<support::Symbol> names_in(const ValueTable& table) {
  std::vector<support::Symbol> names;
  names.reserve(table.values.size());
  for (const Value& value : table.values) names.push_back(value.name);
  return names;
}

}  // namespace

TablePrinter::TablePrinter(const ValueTable& table, const program::Program& program)
    : table_(table), program_(program), used_(table.values.size()) {
  static_cast<std::vector<std::string>&>(names_) = program::unique_names(names_in(table));
}

void TablePrinter::use(ValueId id) {
  if (id != kNoValue) used_[id] = true;
}

std::string TablePrinter::name(ValueId id) const {
  if (id == kNoValue) return "_";
  const Layout& layout = table_.storage_of(id).layout;
  if (layout == Layout{}) return "%" + plain_name(id);
  return support::str("%", plain_name(id), ":", kLayoutWords[static_cast<size_t>(layout.kind)]);
}

std::string TablePrinter::list(std::span<const ValueId> ids) const {
  std::string text;
  for (ValueId id : ids) text += (text.empty() ? "" : ", ") + name(id);
  return text;
}

void TablePrinter::print(std::ostream& out) {
  Table<StorageId, bool> named(table_.storages.size());
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) named[table_.values[i].storage] = true;
  }
  Table<StorageId, int> numbers(table_.storages.size(), -1);
  int next = 0;
  for (size_t i = 0; i < table_.storages.size(); ++i) {
    if (!named[i] && table_.storages[i].base == Base::kArena) continue;
    numbers[i] = next++;
    out << "storage " << numbers[i] << " : ";
    print(out, table_.storages[i], numbers);
  }
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]) continue;
    const Value& value = table_.values[i];
    out << "value %" << names_[i] << " : " << value.type << " at storage("
        << numbers[value.storage];
    if (value.offset != 0) out << ", " << value.offset;
    out << ")";
    if (value.is_strided()) out << " by " << ir::shape_text(value.strides);
    out << "\n";
  }
}

void TablePrinter::print(std::ostream& out, const Storage& storage,
                         const Table<StorageId, int>& numbers) const {
  const auto index = static_cast<size_t>(storage.index);
  out << storage.type << " at ";
  if (storage.base == Base::kState) {
    out << "state(" << support::quoted(program_.states[index].slot.name.text()) << ")";
  } else if (storage.base == Base::kConstant) {
    out << "constant(" << index << ")";
  } else {
    out << "arena(" << storage.offset << ")";
  }
  program::Items items;
  if (storage.copy_of >= 0) {
    items.add("copy_of", numbers[storage.copy_of], -1);
  }
  items.add("held", storage.held, false);
  items.add("ipu", storage.ipu, 0);
  items.add("kept", storage.kept, false);
  items.add("layout", kLayoutWords[static_cast<size_t>(storage.layout.kind)], kLayoutWords[0]);
  items.add("meets", storage.meets, false);
  items.add("readers", storage.readers, 0);
  items.add("resized", storage.resized, false);
  items.add("writers", storage.writers, 0);
  out << items.braced() << "\n";
}

}  // namespace poptorch::emulator
