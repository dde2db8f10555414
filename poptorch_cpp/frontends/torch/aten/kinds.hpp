// Checks of arguments for which torch accepts one kind of dtype, where a cast would accept any.
#pragma once

#include <string>

#include "frontends/torch/aten/call.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

// Returns the tensor as i32. UserError for floats, which `what` names in the message.
inline Val whole_numbers(Call& c, const TensorValue& x, const std::string& what) {
  if (ir::is_float(x.dtype)) {
    c.fail(support::str(what, " are whole numbers, but got ", ir::Type{x.dtype, x.shape()},
                        ". Pass integers: a tensor's long() gives them."));
  }
  return c.cast(x.value, DType::kI32);
}

// Returns the mask as booleans; bytes are accepted if `or_bytes`. UserError for other dtypes.
inline Val truths(Call& c, const TensorValue& x, bool or_bytes) {
  if (x.dtype != DType::kBool && !(or_bytes && x.dtype == DType::kU8)) {
    c.fail(support::str("a mask is boolean, but got ", ir::Type{x.dtype, x.shape()},
                        ". Compare for one, as in x != 0."));
  }
  return c.cast(x.value, DType::kBool);
}

// Returns `dtype`, that of `what`. UserError unless it is a float dtype.
inline DType floats(Call& c, DType dtype, const std::string& what) {
  if (!ir::is_float(dtype)) {
    c.fail(support::str(what, " needs a float dtype, but got ", dtype,
                        ". Cast the tensor to float first."));
  }
  return dtype;
}

}  // namespace poptorch::frontend
