// Explains unknown values that the host needs and that follow from buffers: see handled.hpp.
#include <set>
#include <string>
#include <vector>

#include "frontends/torch/tracer/dispatch/handled.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::IValue;

// Adds the buffers that `value` follows from. Returns false if it follows from anything else than
// buffers and constants.
bool add_buffers(const Tracer& tracer, const ir::Value* value, std::set<std::string>& buffers) {
  std::set<const ir::Op*> seen;
  std::vector<const ir::Value*> open{value};
  while (!open.empty()) {
    const ir::Op* op = open.back()->producer();
    open.pop_back();
    if (!op || op->def().random) return false;
    if (!seen.insert(op).second) continue;
    if (const std::string* slot = ir::slot_of(op)) {
      if (!tracer.is_buffer(*slot)) return false;
      buffers.insert(*slot);
      continue;
    }
    for (const ir::Value* operand : op->operands()) {
      if (operand) open.push_back(operand);
    }
  }
  return true;
}

std::vector<at::Tensor> tensors_among(c10::ArrayRef<IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (!value.isList()) continue;
    for (const IValue& item : value.toListRef()) {
      if (item.isTensor()) tensors.push_back(item.toTensor());
    }
  }
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

}  // namespace

std::string buffers_behind(Tracer& tracer, c10::ArrayRef<IValue> wanted) {
  std::set<std::string> buffers;
  for (const at::Tensor& tensor : tensors_among(wanted)) {
    if (tracer.known(tensor)) continue;
    if (!add_buffers(tracer, tracer.read(tensor), buffers)) return "";
  }
  if (buffers.empty()) return "";
  return support::str(" It depends on '", support::join(buffers, "', '"),
                      "': buffers are state, which may change. Make a tensor that never changes a "
                      "plain attribute (self.name = tensor, without register_buffer): plain "
                      "attributes are constants, known while the model is traced.");
}

}  // namespace poptorch::frontend
