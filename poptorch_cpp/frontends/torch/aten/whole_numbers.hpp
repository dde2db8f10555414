// What torch takes whole numbers for, which a cast to i32 would take of any type.
#pragma once

#include <string>

#include "frontends/torch/aten/call.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

// The tensor as i32. UserError for floats: `what` names them in it.
inline Val whole_numbers(Call& c, const TensorValue& x, const std::string& what) {
  if (ir::is_float(x.dtype)) {
    c.fail(support::str(what, " are whole numbers, but got ", ir::Type{x.dtype, x.shape()},
                        ". Pass integers: a tensor's long() gives them."));
  }
  return c.cast(x.value, DType::kI32);
}

}  // namespace poptorch::frontend
