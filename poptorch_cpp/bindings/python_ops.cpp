// Declares Python's custom ops through the C interface. Their functions take the GIL for the call;
// the thread that waits for them has released it (watched.hpp). Arrays are copies, so a function
// may keep them.
#include "bindings/python_ops.hpp"

#include <pybind11/stl.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/numpy.hpp"
#include "bindings/text.hpp"
#include "ops/custom_ops.hpp"

namespace poptorch::bindings {
namespace {

using PyTypes = std::vector<std::pair<std::string, ir::Shape>>;
using Operands = std::vector<std::pair<int32_t, int32_t>>;

// A gradient op: its name, its inputs as (kind, index), and the input that each output belongs to.
using Gradient = std::tuple<std::string, Operands, std::vector<int32_t>>;

// Is never destroyed: executables keep pointers to it.
struct PythonOp {
  std::string domain, name, gradient_name;
  py::function infer, compute;
  std::vector<int32_t> kinds, indices, of;
  PoptorchCustomGradient gradient{};
  PoptorchCustomOp table{};
};

ir::Type type_of(const PoptorchCustomType& type) {
  return {static_cast<ir::DType>(type.dtype), ir::Shape(type.shape, type.shape + type.rank)};
}

template <typename T>
py::object one_or_list(const T* values, const PoptorchCustomAttr& attr, bool is_list) {
  if (!is_list) return py::cast(values[0]);
  return py::cast(std::vector<T>(values, values + attr.count));
}

py::dict attributes(const PoptorchCustomCall& call) {
  py::dict result;
  for (int32_t i = 0; i < call.attr_count; ++i) {
    const PoptorchCustomAttr& attr = call.attrs[i];
    const bool is_list = attr.type % 2 == 1;
    py::object value;
    if (attr.type <= POPTORCH_CUSTOM_FLOATS) {
      value = one_or_list(attr.floats, attr, is_list);
    } else if (attr.type <= POPTORCH_CUSTOM_INTS) {
      value = one_or_list(attr.ints, attr, is_list);
    } else if (is_list) {
      value = py::cast(std::vector<std::string>(attr.strings, attr.strings + attr.count));
    } else {
      value = py::str(attr.strings[0]);
    }
    result[attr.name] = value;
  }
  return result;
}

// Calls `work` with the GIL. Keeps an exception that Python raises, and writes its text to `error`.
template <typename Work>
int32_t told(char* error, size_t size, const Work& work) {
  const py::gil_scoped_acquire gil;
  try {
    try {
      work();
      return 0;
    } catch (py::error_already_set& raised) {
      const auto keep = py::module_::import("poptorch_core.errors").attr("keep_cause");
      std::snprintf(error, size, "%s", keep(raised.value()).cast<std::string>().c_str());
    }
  } catch (const std::exception& failure) {
    std::snprintf(error, size, "%s", failure.what());
  }
  return 1;
}

int32_t infer(void* self, const PoptorchCustomCall* call,
              void (*give)(void*, const PoptorchCustomType*), void* to, char* error, size_t size) {
  return told(error, size, [&] {
    PyTypes inputs;
    for (int32_t i = 0; i < call->input_count; ++i) {
      const ir::Type type = type_of(call->inputs[i]);
      inputs.emplace_back(ir::name(type.dtype), type.shape);
    }
    const auto& op = *static_cast<PythonOp*>(self);
    for (const auto& [dtype, shape] : op.infer(inputs, attributes(*call)).cast<PyTypes>()) {
      const PoptorchCustomType type{static_cast<int32_t>(ir::dtype_from_name(dtype).value()),
                                    static_cast<int32_t>(shape.size()), shape.data()};
      give(to, &type);
    }
  });
}

int32_t compute(void* self, const PoptorchCustomCall* call, char* error, size_t size) {
  return told(error, size, [&] {
    py::list inputs;
    for (int32_t i = 0; i < call->input_count; ++i) {
      const ir::Type type = type_of(call->inputs[i]);
      py::array array = empty_array(type);
      std::memcpy(mutable_bytes_of(array), call->buffers[i], static_cast<size_t>(type.bytes()));
      inputs.append(py::make_tuple(std::string(ir::name(type.dtype)), std::move(array)));
    }
    const auto& op = *static_cast<PythonOp*>(self);
    const py::list results =
        op.compute(inputs, attributes(*call), call->replica, call->replica_count);
    for (int32_t i = 0; i < call->output_count; ++i) {
      const ir::Type type = type_of(call->outputs[i]);
      const py::array dense = checked(results[i].cast<py::array>(), type, "a result");
      std::memcpy(call->buffers[call->input_count + i], bytes_of(dense),
                  static_cast<size_t>(type.bytes()));
    }
  });
}

void register_python_op(const std::tuple<Text, Text, int32_t>& id, int32_t inputs, int32_t outputs,
                        py::function infer_types, py::function compute_values,
                        const std::optional<Gradient>& gradient) {
  auto& op = *new PythonOp();
  const auto& [domain, name, version] = id;
  op.domain = domain.value;
  op.name = name.value;
  op.infer = std::move(infer_types);
  op.compute = std::move(compute_values);
  if (gradient) {
    const auto& [gradient_name, operands, of] = *gradient;
    op.gradient_name = gradient_name;
    op.of = of;
    for (const auto& [kind, index] : operands) {
      op.kinds.push_back(kind);
      op.indices.push_back(index);
    }
    op.gradient = {op.domain.c_str(),
                   op.gradient_name.c_str(),
                   version,
                   static_cast<int32_t>(op.kinds.size()),
                   op.kinds.data(),
                   op.indices.data(),
                   static_cast<int32_t>(op.of.size()),
                   op.of.data()};
  }
  op.table.abi = POPTORCH_CUSTOM_OP_ABI;
  op.table.version = version;
  op.table.domain = op.domain.c_str();
  op.table.name = op.name.c_str();
  op.table.self = &op;
  op.table.input_count = inputs;
  op.table.output_count = outputs;
  op.table.attr_count = POPTORCH_CUSTOM_ANY_ATTRS;
  op.table.infer = infer;
  op.table.compute = compute;
  op.table.gradient = gradient ? &op.gradient : nullptr;
  poptorch_register_custom_op(&op.table);
}

}  // namespace

void bind_python_ops(py::module_& m) {
  m.def("register_python_op", register_python_op,
        "Registers a custom op made of Python functions, with any attributes: infer(types, "
        "attributes) → types, compute([(element type, array)], attributes, replica, replicas) → "
        "arrays, where a type is (element type, shape). gradient: the name of its gradient op, of "
        "the same domain and version, with the inputs and outputs of custom_gradient.",
        py::arg("id"), py::arg("inputs"), py::arg("outputs"), py::arg("infer"), py::arg("compute"),
        py::arg("gradient"));
}

}  // namespace poptorch::bindings
