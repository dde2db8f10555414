// Converts between torch's element types and the IR's, and makes tensors without data that stand
// for IR values.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/attr.hpp"
#include "ir/type.hpp"

namespace poptorch::frontend {

// Throws UnsupportedError for quantised and other types that the IR lacks.
ir::DType ir_dtype(c10::ScalarType dtype);
c10::ScalarType torch_dtype(ir::DType dtype);
ir::Type type_of_tensor(const at::Tensor& tensor);  // with torch's dtype, not narrowed

// Returns a tensor of the device `ipu` without data. It has the CPU's dispatch keys, so that
// torch's view functions work on it. Access to its data raises an error that gives the reason.
at::Tensor make_dataless(const ir::Shape& shape, c10::ScalarType dtype);
bool is_dataless(const at::Tensor& tensor);
// Sets the value of `tensor.device`, also for tensors that have data.
void report_device(const at::Tensor& tensor, c10::Device device);
c10::Device ipu_device();

// Returns the values of a host tensor, dense and with lazy conjugations and negations applied.
at::Tensor plain(const at::Tensor& tensor);

// Returns the values of a host tensor in the narrowed dtype. Throws UserError as narrowed() does,
// and for a meta tensor.
ir::Literal literal_of(const at::Tensor& tensor, const std::string& what = "a constant");
at::Tensor tensor_of(const ir::Literal& literal);  // of the dtype that the device holds
// Returns the tensor dense and in the dtype that the device holds for its dtype. Throws UserError
// for a 64-bit number that 32 bits cannot hold. The message names `what` ("input 0") and the
// number's place.
at::Tensor narrowed(const at::Tensor& tensor, const std::string& what);

}  // namespace poptorch::frontend
