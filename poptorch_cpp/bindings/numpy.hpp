// Tensors of the core as NumPy arrays. Element types that NumPy lacks are passed as unsigned
// integers with the same bits.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <iterator>
#include <string>
#include <vector>

#include "ir/type.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

inline py::dtype numpy_dtype(ir::DType dtype) {
  using enum py::detail::npy_api::constants;
  constexpr int kHalf = 23;  // NPY_HALF, for which pybind11 lacks a name
  // The order is that of DType. Every run looks types up, and names would have to be parsed.
  static constexpr int kNumbers[] = {
      NPY_BOOL_,   NPY_INT8_,   NPY_INT16_,   NPY_INT32_, NPY_INT64_, NPY_UINT8_,  NPY_UINT16_,
      NPY_UINT32_, NPY_UINT64_, NPY_UINT8_,   NPY_UINT8_, kHalf,      NPY_UINT16_, NPY_FLOAT_,
      NPY_DOUBLE_, NPY_CFLOAT_, NPY_CDOUBLE_, NPY_UINT8_, NPY_UINT8_};
  static_assert(std::size(kNumbers) == static_cast<size_t>(ir::DType::kF8_E5M2) + 1);
  return py::dtype(kNumbers[static_cast<size_t>(dtype)]);
}

inline py::array empty_array(const ir::Type& type) {
  return py::array(numpy_dtype(type.dtype),
                   std::vector<py::ssize_t>(type.shape.begin(), type.shape.end()));
}

inline const std::byte* bytes_of(const py::array& array) {
  return static_cast<const std::byte*>(array.data());
}

inline std::byte* mutable_bytes_of(py::array& array) {
  return static_cast<std::byte*>(array.mutable_data());
}

// Returns `array`, dense and row-major, after a check against `type`. The UserError names `what`.
inline py::array checked(const py::array& array, const ir::Type& type, const std::string& what) {
  const ir::Shape shape(array.shape(), array.shape() + array.ndim());
  if (!array.dtype().equal(numpy_dtype(type.dtype)) || shape != type.shape) {
    throw support::UserError(
        support::str("[run] ", what, " is ", py::str(array.dtype()).cast<std::string>(), " ",
                     ir::shape_text(shape), " but the program was compiled for ", type,
                     ". Pass an array of that type, or compile again."));
  }
  return py::array::ensure(array, py::array::c_style);
}

}  // namespace poptorch::bindings
