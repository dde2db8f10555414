// Torch's element types and the IR's, and tensors without data that stand for IR values.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/attr.hpp"
#include "ir/type.hpp"

namespace poptorch::frontend {

// UnsupportedError for quantised and other types that the IR lacks.
ir::DType ir_dtype(c10::ScalarType dtype);
c10::ScalarType torch_dtype(ir::DType dtype);
ir::Type type_of_tensor(const at::Tensor& tensor);  // with torch's own dtype

// A tensor of the device `ipu` without data. Its dispatch keys are the CPU's, so that torch's view
// functions work on it; access to its data raises an error that explains itself.
at::Tensor make_dataless(const ir::Shape& shape, c10::ScalarType dtype);
bool is_dataless(const at::Tensor& tensor);
// What `tensor.device` answers, for tensors that have data as well.
void report_device(const at::Tensor& tensor, c10::Device device);
c10::Device ipu_device();

// The values of a host tensor, dense and with lazy conjugations and negations applied.
at::Tensor plain(const at::Tensor& tensor);

// The values of a host tensor in the narrowed dtype.
// UserError as from narrowed().
ir::Literal literal_of(const at::Tensor& tensor, const std::string& what = "a constant");
at::Tensor tensor_of(const ir::Literal& literal);  // of the dtype that the device holds
// The tensor dense and of the dtype that the device holds for its own. UserError for a number of 64
// bits that 32 cannot hold, which names `what` ("input 0") and the number's place.
at::Tensor narrowed(const at::Tensor& tensor, const std::string& what);

}  // namespace poptorch::frontend
