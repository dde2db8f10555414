#include "bindings/custom_ops.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/text.hpp"
#include "ops/custom_ops.hpp"
#include "ops/custom_registry.hpp"
#include "support/strings.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using support::str;
using PyTypes = std::vector<std::pair<std::string, ir::Shape>>;
using Operands = std::vector<std::pair<int32_t, int32_t>>;
using Id = std::tuple<std::string, std::string, int64_t>;

int64_t integer_of(py::handle value) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return number;
  throw support::UserError(str(std::string(py::str(value)), " is too ",
                               overflow > 0 ? "high" : "low", " for a Popart int attribute."));
}

ir::Attr attr_of(py::handle value) {
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  if (PyLong_Check(value.ptr())) return integer_of(value);
  if (PyUnicode_Check(value.ptr())) return value.cast<Text>().value;
  const auto items = value.cast<py::sequence>();
  if (py::len(items) == 0 || PyLong_Check(items[0].ptr())) {
    ir::Ints numbers;
    for (const auto& item : items) numbers.push_back(integer_of(item));
    return numbers;
  }
  if (PyFloat_Check(items[0].ptr())) return value.cast<ir::Floats>();
  ir::Strings texts;
  for (const auto& item : items) texts.push_back(item.cast<Text>().value);
  return texts;
}

std::string attributes_text(const py::dict& given) {
  ops::CustomAttrs attrs;
  for (const auto& [name, value] : given) {
    attrs.emplace_back(name.cast<Text>().value, attr_of(value));
  }
  return ops::custom_attrs_text(std::move(attrs));
}

// Returns the gradient op's (domain, name, version), its attributes, its inputs as (kind, index)
// and the input whose gradient each of its outputs is. None without a gradient op.
std::optional<std::tuple<Id, std::string, Operands, std::vector<int32_t>>> gradient(
    const Text& domain, const Text& name, int64_t version, const Text& attributes,
    const PyTypes& inputs) {
  std::vector<ir::Type> types;
  for (const auto& [dtype, shape] : inputs) {
    types.push_back({ir::dtype_from_name(dtype).value(), shape});
  }
  const auto found =
      ops::CustomCall({domain, name, version}, attributes, std::move(types)).gradient();
  if (!found) return std::nullopt;
  Operands operands;
  for (const auto& [kind, index] : found->inputs) operands.emplace_back(kind, index);
  return std::tuple(Id{found->id.domain, found->id.name, found->id.version}, found->attributes,
                    std::move(operands), found->of);
}

}  // namespace

void bind_custom_ops(py::module_& m) {
  m.def("custom_attributes", attributes_text,
        "The text of attributes of a custom op: floats, ints and strings, alone or in lists.",
        py::arg("attributes"));
  m.def("custom_gradient", gradient,
        "The gradient op of a use of a custom op: its (domain, name, version), its attributes, its "
        "inputs as (0: input, 1: output, 2: gradient of output; index), and for each of its "
        "outputs the input whose gradient it is.",
        py::arg("domain"), py::arg("name"), py::arg("version"), py::arg("attributes"),
        py::arg("inputs"));
  m.def(
      "custom_op_ids",
      [] {
        std::vector<Id> ids;
        for (const auto& id : ops::custom_op_ids())
          ids.emplace_back(id.domain, id.name, id.version);
        return ids;
      },
      "(domain, name, version) of the registered custom ops.");
}

}  // namespace poptorch::bindings
