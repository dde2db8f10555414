// Implements compile_options.hpp.
#include "bindings/compile_options.hpp"

#include <pybind11/stl.h>

#include "support/error.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

namespace {

// Whole numbers of 64 bits without sign become those with the same bits.
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
                               ", which is no option's value.");
    }
  }
  return attrs;
}

}  // namespace

void take_lines(ir::Execution& execution, const std::vector<Line>& lines) {
  for (const auto& [keyword, name, options] : lines) {
    ir::take_line(execution, {keyword, name, attrs_of(options)});
  }
}

session::HostOptions host_options_of(const py::dict& given) {
  session::HostOptions options;
  ir::take_attrs(session::host_option_rows(), options, attrs_of(given));
  return options;
}

py::list option_table() {
  py::list rows;
  auto add = [&](const ir::OptionText& row) {
    rows.append(
        py::make_tuple(row.keyword, row.name, row.otherwise, row.allowed, row.changes, row.doc));
  };
  for (const ir::OptionText& row : ir::execution_table()) add(row);
  for (const ir::OptionText& row :
       ir::texts_of("host", session::host_option_rows(), session::HostOptions())) {
    add(row);
  }
  return rows;
}

}  // namespace poptorch::bindings
