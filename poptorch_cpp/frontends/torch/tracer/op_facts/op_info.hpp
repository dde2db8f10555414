// What the handler needs to know of an operator, worked out once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {

struct OpInfo {
  std::string name;        // "aten::add_", without the overload
  std::string overload;    // "Tensor"
  std::string functional;  // the row's name: "add"; outside aten with its namespace
  const Rule* rule = nullptr;
  std::vector<size_t> writes;  // arguments written by schema
  bool is_view = false;        // results alias an argument that is not written
  bool is_composite = false;   // torch takes it apart
  bool has_tensor_results = false;
  bool is_random = false;
  bool is_loss = false;         // of no row: the generic op's result is marked as one
  bool takes_masks = false;     // argument 1 is a list of index tensors, which may be masks
  bool data_dependent = false;  // shape or host value follows from tensor values
};

// Cached per operator; the reference stays valid.
const OpInfo& info_of(const c10::OperatorHandle& op);

}  // namespace poptorch::frontend
