// Tensors of the core as NumPy arrays. Element types that NumPy lacks travel as the bits of
// unsigned integers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/type.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

inline py::dtype numpy_dtype(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBool:
      return py::dtype("bool");
    case ir::DType::kF8_143:
    case ir::DType::kF8_152:
      return py::dtype("uint8");
    case ir::DType::kBF16:
      return py::dtype("uint16");
    default:
      break;
  }
  const std::string name(ir::name(dtype));  // "f32", "u8", "c64"
  static const std::unordered_map<char, const char*> kKinds = {
      {'i', "int"}, {'u', "uint"}, {'f', "float"}, {'c', "complex"}};
  return py::dtype(kKinds.at(name[0]) + name.substr(1));
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

// `array`, dense and row-major, after a check against `type`. UserError naming `what`.
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
