// The table of kernel rows, and the attributes of requests.
#include "emulator/kernels/base/kernel.hpp"

#include "ir/op_def.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {

const ir::Attr& KernelRequest::attr_value(ir::Symbol name) const {
  const ir::Attr* given = attrs.find(name);
  return given ? *given : *op->find_attr(name)->default_value;
}

void KernelTable::add(KernelRow row) {
  const std::string op = row.op;
  if (!rows_.emplace(op, std::move(row)).second) {
    throw support::InternalError("[kernels] op '" + op + "' has two kernel rows. Remove one.");
  }
}

const KernelRow* KernelTable::find(const std::string& op) const {
  auto found = rows_.find(op);
  return found == rows_.end() ? nullptr : &found->second;
}

}  // namespace poptorch::emulator
