// Judges operators by their schemas and tags, and by two lists of exceptions.
#include "frontends/torch/tracer/op_facts/purity.hpp"

#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <string>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::TypeKind;
using support::str;

// Namespaces of torch, other than `aten`, whose operators act on more than tensors.
constexpr std::string_view kActing[] = {
    "c10d",     "_c10d_functional", "c10d_functional",
    "_dtensor", "symm_mem",         "fsdp",
    "profiler", "inductor",         "debugprims",
    "rngprims", "streams",          "_c10d_functional_autograd"};
// Operators that read memory outside their tensors if sizes or file names are wrong. Neither schema
// nor tags show this.
constexpr std::string_view kTrusting[] = {"aten::from_file", "aten::_reshape_alias"};

bool is_data(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return is_data(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ListType:
      return is_data(*type.castRaw<c10::ListType>()->getElementType());
    case TypeKind::TensorType:
    case TypeKind::NumberType:
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::BoolType:
    case TypeKind::StringType:
    case TypeKind::DeviceObjType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return true;
    default:
      return false;
  }
}

std::string defect_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view name = schema.name();
  const auto is_listed = [](const auto& list, std::string_view what) {
    return std::find(std::begin(list), std::end(list), what) != std::end(list);
  };
  if (is_listed(kActing, name.substr(0, name.find("::")))) return "acts on more than tensors";
  if (is_listed(kTrusting, name)) return "takes its arguments on trust";
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return "draws from torch's random numbers";
  for (const c10::Argument& argument : schema.arguments()) {
    if (!is_data(*argument.real_type())) {
      return str("takes a ", argument.real_type()->str());
    }
    const auto* alias = argument.alias_info();
    if (alias && alias->isWrite() && argument.type()->kind() == TypeKind::ListType) {
      return "writes lists of tensors";
    }
  }
  return "";
}

}  // namespace

void check_pure(const c10::OperatorHandle& op) {
  const std::string defect = defect_of(op);
  if (defect.empty()) return;
  throw support::UserError(str("the operator '", op.schema().name(), "' ", defect,
                               ", but a program's are functions of tensors. Compile the model "
                               "again with others."));
}

}  // namespace poptorch::frontend
