// Collects the facts that the handler needs about an operator, once per operator, from its schema
// and tags.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {

struct OpInfo {
  std::string name;        // "aten::add_", without the overload
  std::string overload;    // "Tensor"
  std::string functional;  // "add", the row's name; outside aten with the namespace
  const Rule* rule = nullptr;
  std::vector<size_t> writes;      // arguments that the schema marks as written
  bool is_view = false;            // results alias an argument that is not written
  bool is_untracked_view = false;  // autograd takes its results for new tensors
  bool is_composite = false;       // torch decomposes it
  bool has_tensor_results = false;
  bool is_random = false;
  bool is_loss = false;         // has no row, and the generic op's result is marked as a loss
  bool takes_masks = false;     // argument 1 is a list of index tensors, which may be masks
  bool data_dependent = false;  // a shape or a host value depends on tensor values
};

// Returns the operator's facts from a cache; the reference stays valid.
const OpInfo& info_of(const c10::OperatorHandle& op);

}  // namespace poptorch::frontend
