#include "emulator/kernels/base/tile_ops.hpp"

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator {
namespace {

using MicroRows = std::unordered_multimap<std::string_view, MicroRow>;

const MicroRows& table() {
  static const MicroRows all = [] {
    std::vector<MicroRow> rows;
    kernel_set().add_micro_rows(rows);
    MicroRows made;
    for (const MicroRow& row : rows) made.emplace(row.op, row);
    return made;
  }();
  return all;
}

}  // namespace

RegisterClass register_class(ir::DType dtype) {
  switch (dtype) {
    using enum ir::DType;
    case kF32:
    case kF16:
    case kBF16:
      return RegisterClass::kF32;
    case kBool:
    case kI8:
    case kU8:
    case kI16:
    case kU16:
    case kI32:
      return RegisterClass::kI32;
    case kU32:
    case kI64:
      return RegisterClass::kI64;
    case kF64:
      return RegisterClass::kF64;
    default:
      return RegisterClass::kNone;
  }
}

MicroFn load_fn(ir::DType dtype) { return kernel_set().conversions.load(dtype); }
MicroFn store_fn(ir::DType dtype) { return kernel_set().conversions.store(dtype); }
MicroFn narrow_fn(ir::DType dtype) { return kernel_set().conversions.narrow(dtype); }
MicroFn round_at_random_fn(ir::DType dtype) {
  return kernel_set().conversions.round_at_random(dtype);
}
MicroFn copy_held_fn() { return kernel_set().conversions.copy_held; }
MicroFn cast_fn(ir::DType from, ir::DType to) { return kernel_set().conversions.cast(from, to); }

const ir::Attr& MicroQuery::attr(ir::Symbol name) const {
  const ir::Attr* given = attrs.find(name);
  return given ? *given : *def.find_attr(name)->default_value;
}

const MicroRow* find_micro_row(const MicroQuery& query) {
  // The first operand that is not a condition decides the register class.
  const auto& rows = query.def.operand_defs;
  const size_t deciding = rows.size() > 1 && rows[0].rule == ir::OperandDef::Rule::kBool ? 1 : 0;
  if (query.operands.size() <= deciding) return nullptr;
  const RegisterClass source = register_class(query.operands[deciding]);
  if (source == RegisterClass::kNone) return nullptr;
  const bool update = !query.def.writes.empty();
  for (size_t i = deciding; i < query.operands.size(); ++i) {
    const RegisterClass held = register_class(query.operands[i]);
    if (held != source && !(update && held == RegisterClass::kF64)) return nullptr;
  }
  const auto [begin, end] = table().equal_range(query.def.name);
  for (auto row = begin; row != end; ++row) {
    const MicroRow& found = row->second;
    if (found.source != source || (found.serves && !found.serves(query))) continue;
    bool fits = true;
    for (ir::DType result : query.results) fits &= register_class(result) == found.result;
    if (fits) return &found;
  }
  return nullptr;
}

std::vector<std::string> micro_op_names() {
  std::set<std::string> names{"cast"};
  for (const auto& [name, row] : table()) names.emplace(name);
  return {names.begin(), names.end()};
}

}  // namespace poptorch::emulator
