// What torch takes one kind of dtype for, where a cast of ours would take any.
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

// A condition of each element; bytes are one where torch says so. UserError for others.
inline Val truths(Call& c, const TensorValue& x, bool or_bytes) {
  if (x.dtype != DType::kBool && !(or_bytes && x.dtype == DType::kU8)) {
    c.fail(support::str("a mask is boolean, but got ", ir::Type{x.dtype, x.shape()},
                        ". Compare for one, as in x != 0."));
  }
  return c.cast(x.value, DType::kBool);
}

// UserError unless `dtype`, which `what` is of, is of floats.
inline DType floats(Call& c, DType dtype, const std::string& what) {
  if (!ir::is_float(dtype)) {
    c.fail(support::str(what, " needs a float dtype, but got ", dtype,
                        ". Cast the tensor to float first."));
  }
  return dtype;
}

}  // namespace poptorch::frontend
