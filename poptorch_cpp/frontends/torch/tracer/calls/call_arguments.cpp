#include "frontends/torch/tracer/calls/call_arguments.hpp"

#include "ir/type.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using c10::TypeKind;

class Checker {
 public:
  explicit Checker(const c10::FunctionSchema& schema) : schema_(schema) {}

  void run(const Json& arguments) {
    const auto* items = std::get_if<JsonList>(&arguments);
    if (!items || items->size() != schema_.arguments().size()) {
      fail(support::str("they must be a list of ", schema_.arguments().size()));
    }
    for (size_t i = 0; i < items->size(); ++i) {
      check((*items)[i], *schema_.arguments()[i].real_type());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw support::UserError(
        support::str("the arguments do not fit ", schema_.name(), ": ", why, "."));
  }

  void check(const Json& value, const c10::Type& type) {
    if (type.kind() == TypeKind::OptionalType) {
      return check(value, *type.castRaw<c10::OptionalType>()->getElementType());
    }
    if (std::holds_alternative<JsonObject>(value)) return check_tensor(value);
    const auto* items = std::get_if<JsonList>(&value);
    if (!items) return;  // torch checks single values itself
    if (type.kind() != TypeKind::ListType) fail("a list is given where none is allowed");
    for (const Json& item : *items) {
      check(item, *type.castRaw<c10::ListType>()->getElementType());
    }
  }

  void check_tensor(const Json& value) {
    const Json *operand = value.find("operand"), *sizes = value.find("empty");
    if (operand) {
      const auto* number = std::get_if<int64_t>(operand);
      if (!number || *number != operands_++) fail("operands are not numbered in order");
    } else if (sizes) {
      check_sizes(*sizes);
    } else {
      fail("an object is neither an operand nor a tensor without elements");
    }
    const Json* dtype = value.find(operand ? "dtype" : "of");
    const auto* name = dtype ? std::get_if<std::string>(dtype) : nullptr;
    if (!name || !ir::dtype_from_name(*name)) fail("a tensor has no element type");
  }

  void check_sizes(const Json& sizes) const {
    const auto* items = std::get_if<JsonList>(&sizes);
    if (!items) fail("sizes are not a list");
    for (const Json& item : *items) {
      const auto* size = std::get_if<int64_t>(&item);
      if (!size || *size < 0) fail("a size is not a natural number");
    }
  }

  const c10::FunctionSchema& schema_;
  int64_t operands_ = 0;
};

}  // namespace

void check_arguments(const c10::FunctionSchema& schema, const Json& arguments) {
  Checker(schema).run(arguments);
}

}  // namespace poptorch::frontend
