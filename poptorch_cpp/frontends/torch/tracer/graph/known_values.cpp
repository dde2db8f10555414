#include "frontends/torch/tracer/graph/known_values.hpp"

#include <vector>

#include "frontends/torch/tracer/calls/generic_call.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "reference/evaluate.hpp"
#include "reference/reference.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Operands = std::vector<const ir::Literal*>;

// Returns true for a torch operator without a row. Other providers' kernels do not run while a
// model is traced.
bool is_of_torch(const ir::OpDef& def) { return def.find_attr("schema"); }

bool computes(const ir::OpDef& def) {
  if (def.passes) return true;
  if (def.random || def.has_effect()) return false;
  return is_of_torch(def) || reference::find_kernel(def.name);
}

std::vector<ir::Literal> by_torch(const ir::Op& op, const Operands& operands) {
  std::vector<at::Tensor> tensors;
  for (const ir::Literal* operand : operands) tensors.push_back(tensor_of(*operand));
  const auto& schema = op.attr<std::string>("schema");
  const GenericCall call(schema, op.attr<std::string>("arguments"));
  std::vector<ir::Literal> results;
  try {
    for (const at::Tensor& result : call.run(tensors)) results.push_back(literal_of(result));
  } catch (const c10::Error& error) {
    throw support::UserError(support::str("[", schema, "] ", error.what_without_backtrace(),
                                          ir::place_text(op.location)));
  }
  return results;
}

}  // namespace

std::optional<ir::Literal> KnownValues::unknown(const ir::Op* op) const {
  if (!finite_ || !op || op->role() != ir::Role::kUnusual) return std::nullopt;
  const ir::Type& type = op->result()->type();
  return ir::Literal(type, std::vector<std::byte>(static_cast<size_t>(type.bytes())));
}

// Requires that all operands of `op` have been visited.
bool KnownValues::find_out(const ir::Op& op) {
  Operands operands;
  for (const ir::Value* operand : op.operands()) {
    operands.push_back(operand ? of(operand) : nullptr);
    if (operand && !operands.back()) return false;
  }
  if (op.def().passes) {
    found_.insert_or_assign(op.result(), *operands[0]);
    return true;
  }
  const PauseGuard pause;
  const auto results =
      is_of_torch(op.def()) ? by_torch(op, operands) : reference::evaluate(op, operands);
  for (size_t i = 0; i < op.result_count(); ++i) found_.insert_or_assign(op.result(i), results[i]);
  return true;
}

const ir::Literal* KnownValues::of(const ir::Value* wanted) {
  std::vector<const ir::Value*> open{wanted};
  while (!open.empty()) {
    const ir::Value* value = open.back();
    const ir::Op* op = value->producer();
    if (found_.contains(value) || ir::literal_of(value)) {
      open.pop_back();
      continue;
    }
    const size_t before = open.size();
    bool known = op && computes(op->def());
    for (const ir::Value* operand : known ? op->operands() : std::vector<ir::Value*>{}) {
      if (!operand) continue;
      const auto found = found_.find(operand);
      if (found != found_.end()) {
        known &= found->second.has_value();
      } else if (const auto* literal = ir::literal_of(operand)) {
        known &= literal && !regions_.stands_in(operand);
      } else {
        open.push_back(operand);
      }
    }
    if (known && open.size() > before) continue;  // its operands first
    open.resize(before - 1);
    if (!known || !find_out(*op)) found_.emplace(value, unknown(op));
  }
  if (const ir::Literal* literal = ir::literal_of(wanted)) {
    return regions_.stands_in(wanted) ? nullptr : literal;
  }
  const auto& found = found_.at(wanted);
  return found ? &*found : nullptr;
}

}  // namespace poptorch::frontend
