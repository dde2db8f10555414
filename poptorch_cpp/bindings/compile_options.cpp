#include "bindings/compile_options.hpp"

#include <pybind11/stl.h>

#include "bindings/text.hpp"
#include "emulator/transport/fabric.hpp"
#include "support/error.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

namespace {

// Converts a Python value. Unsigned 64-bit integers become signed ones with the same bits.
ir::Attr attr_of(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) {
    return value < py::int_(0) ? value.cast<int64_t>()
                               : static_cast<int64_t>(value.cast<uint64_t>());
  }
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  return value.cast<ir::Strings>();
}

ir::Attrs attrs_of(const py::dict& given) {
  ir::Attrs attrs;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    try {
      attrs.set(name, attr_of(value));
    } catch (const py::cast_error&) {
      throw support::UserError("[execution] " + name + " is " +
                               py::repr(value).cast<std::string>() +
                               ", which is not a valid value of an option.");
    }
  }
  return attrs;
}

// Takes a value that says which replicas run in this process, and returns whether `name` is one.
// Such values describe the process and are not user options.
bool take_share(emulator::Share& share, const std::string& name, const py::handle& value) {
  if (name == "instances") {
    share.instances = value.cast<int>();
  } else if (name == "instance") {
    share.instance = value.cast<int>();
  } else if (name == "fabric") {
    if (!value.is_none()) share.fabric = value.cast<std::shared_ptr<emulator::Fabric>>();
  } else if (name == "instance_timeout") {
    share.timeout = value.cast<double>();
  } else {
    return false;
  }
  return true;
}

// Converts an attribute of one of the types that options have.
py::object py_of(const ir::Attr& value) {
  if (const auto* held = std::get_if<bool>(&value)) return py::cast(*held);
  if (const auto* held = std::get_if<int64_t>(&value)) return py::cast(*held);
  if (const auto* held = std::get_if<double>(&value)) return py::cast(*held);
  if (const auto* held = std::get_if<std::string>(&value)) return py::cast(*held);
  if (const auto* held = std::get_if<ir::DType>(&value)) {
    return py::cast(std::string(ir::name(*held)));
  }
  return py::cast(std::get<ir::Strings>(value));
}

}  // namespace

void take_lines(ir::Execution& execution, const std::vector<Line>& lines) {
  for (const auto& [keyword, name, options] : lines) {
    ir::take_line(execution, {keyword, name, attrs_of(options)});
  }
}

compile::HostOptions host_options_of(const py::dict& given) {
  compile::HostOptions options;
  py::dict plain;
  for (const auto& [key, value] : given) {
    if (!take_share(options.share, key.cast<std::string>(), value)) plain[key] = value;
  }
  ir::take_attrs(compile::host_option_rows(), options, attrs_of(plain));
  return options;
}

void bind_option_table(py::module_& m) {
  using ir::OptionText;
  auto limit = [](int64_t ir::OptionLimits::* side, int64_t none) {
    return [side, none](const OptionText& row) -> std::optional<int64_t> {
      const int64_t value = row.limits.*side;
      return value == none ? std::nullopt : std::optional(value);
    };
  };
  py::class_<OptionText>(m, "Option", "An option in a line of the description of an execution.")
      .def_readonly(
          "keyword", &OptionText::keyword,
          "The keyword of its line; 'host' for an option that is not part of the program.")
      .def_readonly("name", &OptionText::name)
      .def_readonly("type", &OptionText::type)
      .def_property_readonly("default",
                             [](const OptionText& row) -> py::object {
                               if (!row.value) return py::none();
                               return py_of(*row.value);
                             })
      .def_property_readonly("least", limit(&ir::OptionLimits::least, INT64_MIN))
      .def_property_readonly("most", limit(&ir::OptionLimits::most, INT64_MAX))
      .def_property_readonly(
          "even", [](const OptionText& row) { return row.limits.even; },
          "Whether only even numbers are allowed.")
      .def_property_readonly("words", [](const OptionText& row) { return row.limits.words; })
      .def_readonly("allowed", &OptionText::allowed, "The range, or the words, as text.")
      .def_readonly("found", &OptionText::found,
                    "Whether a pass or the wrapper determines it, so that users do not set it.")
      .def_readonly("setter", &OptionText::setter,
                    "The setter of poptorch.Options: 'Group.setter(argument=default)'.")
      .def_readonly("changes", &OptionText::changes, "Whether it can change after compilation.")
      .def_readonly("doc", &OptionText::doc);
  m.def("option_table", [] {
    std::vector<OptionText> rows = ir::execution_table();
    for (OptionText& row :
         ir::texts_of("host", compile::host_option_rows(), compile::HostOptions())) {
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

void bind_execution(py::module_& m) {
  using ir::Execution;
  py::class_<Execution>(m, "Execution",
                        "A description of how a model is executed, made before its module.")
      .def(py::init([](const std::vector<Line>& lines) {
             Execution made;
             take_lines(made, lines);
             return made;
           }),
           py::arg("lines"))
      .def_property_readonly("micro_batches", &Execution::micro_batches,
                             "The micro-batches of one replica in one run.")
      .def_property_readonly("input_groups", &Execution::input_groups,
                             "The groups of replicas that read the same inputs.")
      .def_property_readonly("input_factor", &Execution::input_factor,
                             "The micro-batches in dimension 0 of an input of one run.")
      .def_readonly("input_group_size", &Execution::input_group_size)
      .def_readonly("input_group_stride", &Execution::input_group_stride)
      .def(
          "batch_defect",
          [](const Execution& execution, const Text& input, int64_t rows) {
            return ir::batch_defect(execution, input, rows);
          },
          "Explains why an input of so many rows cannot be split into micro-batches; empty if it "
          "can.",
          py::arg("input"), py::arg("rows"))
      .def_property_readonly(
          "wrapper_defect", &ir::wrapper_defect,
          "Explains which options an inference model cannot have; empty if all are valid.")
      .def(
          "group_inputs",
          [](Execution& execution, const Text& kind, int64_t size) {
            ir::group_inputs(execution, ir::comm_group_of(kind), size);
          },
          "Sets the groups of replicas that read the same inputs. Raises Error for groups that "
          "cannot be formed of the replicas.",
          py::arg("kind"), py::arg("size"));
  py::class_<ir::ReplicaGroup>(m, "ReplicaGroup",
                               "Replicas that share a value of a parameter: `size` of them, "
                               "`stride` apart; size 0: all.")
      .def_readonly("size", &ir::ReplicaGroup::size)
      .def_readonly("stride", &ir::ReplicaGroup::stride)
      .def_readonly("all_replicas", &ir::ReplicaGroup::all_replicas,
                    "Whether the host has a value of each replica, not of each group.")
      .def("values", &ir::ReplicaGroup::values,
           "The values on the host; a single one does not add a dimension.", py::arg("replicas"));
  m.def(
      "group_parameter",
      [](const Text& name, const std::vector<int64_t>& shape, const Text& kind, int64_t size,
         bool all_replicas, int64_t replicas) {
        return ir::group_parameter(name, shape, ir::comm_group_of(kind), size, all_replicas,
                                   replicas);
      },
      "The groups of replicas that share a value of a parameter. `shape` is the shape of its "
      "tensor on the host. Raises Error for groups and shapes that do not fit.",
      py::arg("name"), py::arg("shape"), py::arg("kind"), py::arg("size"), py::arg("all_replicas"),
      py::arg("replicas"));
  m.attr("COMM_GROUPS") = ir::comm_group_words();
}

}  // namespace poptorch::bindings
