// Declarations of custom ops, copied and checked when they are registered.
#pragma once

#include "ops/custom_ops.hpp"

namespace poptorch::ops {

// The domain of ops whose functions are in Python.
constexpr const char* kPythonDomain = "python";

struct CustomAttrDef {
  std::string name;
  ir::AttrType type = ir::AttrType::kFloat;
  std::optional<ir::Attr> otherwise;  // none: required
};

struct CustomOp {
  CustomId id;
  PoptorchCustomOp table{};  // for its functions
  std::vector<CustomAttrDef> attrs;
  bool takes_any_attrs = false;
  std::optional<CustomGradient> gradient;  // its attributes left out
  std::vector<int32_t> summed_inputs;
  std::string defect;  // why it cannot be used; empty: it can

  const CustomAttrDef* find_attr(const std::string& name) const;
  bool takes(const std::string& attr) const { return takes_any_attrs || find_attr(attr); }
};

// Returns the declaration. UserError, with the op's defect or the nearest name.
std::shared_ptr<const CustomOp> find_custom_op(const CustomId& id);
std::vector<CustomId> custom_op_ids();  // sorted
// Returns everything besides their ops that determines programs: the gradient that each op of the
// process declares, and the inputs that it wants summed.
std::string custom_declarations();

}  // namespace poptorch::ops
