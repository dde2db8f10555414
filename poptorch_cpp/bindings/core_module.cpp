// poptorch_core._core: the compiler without torch. It covers IR as text, compilation, runs on NumPy
// arrays, state and logs.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <set>

#include "account/memory_limit.hpp"
#include "bindings/compile_options.hpp"
#include "bindings/core_files.hpp"
#include "bindings/core_ir.hpp"
#include "bindings/cost_model.hpp"
#include "bindings/custom_ops.hpp"
#include "bindings/errors.hpp"
#include "bindings/fabric.hpp"
#include "bindings/inspect.hpp"
#include "bindings/numpy.hpp"
#include "bindings/python_ops.hpp"
#include "bindings/report.hpp"
#include "bindings/text.hpp"
#include "bindings/watched.hpp"
#include "compile/pass_runner.hpp"
#include "emulator/kernels/check_host.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "program/program.hpp"
#include "session/session.hpp"
#include "storage/cbor.hpp"
#include "support/build_id.hpp"
#include "support/environment.hpp"
#include "support/faults.hpp"
#include "support/log.hpp"
#include "support/moved_bytes.hpp"
#include "support/strings.hpp"
#include "target/device.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using session::Executable;
using support::str;

py::list run(Executable& executable, const std::vector<py::array>& arrays) {
  const auto& types = executable.input_types();
  if (arrays.size() != types.size()) {
    throw support::UserError(str("[run] ", arrays.size(),
                                 " inputs were given but the program takes ", types.size(),
                                 ". Pass one array for each."));
  }
  std::vector<py::array> dense;
  std::vector<const std::byte*> inputs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    dense.push_back(checked(arrays[i], types[i], str("input ", i)));
    inputs.push_back(bytes_of(dense.back()));
  }
  py::list results;
  std::vector<std::byte*> outputs;
  for (const ir::Type& type : executable.output_types()) {
    py::array array = empty_array(type);
    outputs.push_back(mutable_bytes_of(array));
    results.append(std::move(array));
  }
  watched([&] { executable.run(inputs, outputs); });
  return results;
}

// Returns a slot's type on the host, with a leading dimension of groups if it is grouped.
ir::Type state_type(const Executable& executable, const std::string& name) {
  std::vector<std::string> known;
  for (const ir::StateSlot& slot : executable.states()) {
    if (slot.name.text() == name) return executable.state_type(slot);
    known.push_back(slot.name.text());
  }
  const std::string near = support::closest_name(name, known);
  throw support::UserError(str("[state] there is no state '", name, "'.",
                               near.empty() ? "" : str(" Did you mean '", near, "'?")));
}

py::array read_state(const Executable& executable, const Text& name) {
  py::array array = empty_array(state_type(executable, name));
  std::byte* const data = mutable_bytes_of(array);
  if (executable.replicas().count < executable.replicas().all) {
    std::fill_n(data, array.nbytes(), std::byte{0});  // the groups of other instances stay 0
  }
  watched([&] { executable.read_state(name, data); });
  return array;
}

std::tuple<int, int, int> replicas_of(const Executable& executable) {
  const Executable::Replicas here = executable.replicas();
  return {here.first, here.count, here.all};
}

std::vector<std::pair<int, int>> remote_groups(const Executable& executable, const Text& name) {
  return executable.remote_groups(name.value);
}

// Exchanges rows in place; they are the array's first dimension.
void exchange(Executable& executable, py::array array, const std::vector<int>& owners,
              const Text& what) {
  const auto rows = static_cast<py::ssize_t>(owners.size());
  if (array.ndim() == 0 || array.shape(0) != rows || !(array.flags() & py::array::c_style)) {
    throw support::UserError(str("[state] ", what.value, " has ", rows,
                                 " owners. Pass a dense array with as many rows."));
  }
  std::byte* const data = mutable_bytes_of(array);
  const int64_t bytes = rows == 0 ? 0 : array.nbytes() / rows;
  watched([&] { executable.exchange(what.value, data, bytes, owners); });
}

void write_state(Executable& executable, const Text& name, const py::array& array) {
  const py::array dense =
      checked(array, state_type(executable, name), str("state '", name.value, "'"));
  const std::byte* const data = bytes_of(dense);
  watched([&] { executable.write_state(name, data); });
}

const ir::Type& row_type(const Executable& executable, const std::string& name) {
  for (const ir::RemoteBuffer& buffer : executable.remote_buffers()) {
    if (buffer.name.text() == name) return buffer.type;
  }
  throw support::UserError(str("[remote] the program has no remote buffer '", name, "'."));
}

py::array read_remote(const Executable& executable, const Text& name, int replica, int64_t entry) {
  py::array array = empty_array(row_type(executable, name));
  std::byte* const data = mutable_bytes_of(array);
  watched([&] { executable.read_remote(name, replica, entry, data); });
  return array;
}

void write_remote(Executable& executable, const Text& name, int replica, int64_t entry,
                  const py::array& row) {
  const py::array dense =
      checked(row, row_type(executable, name), str("a row of remote buffer '", name.value, "'"));
  const std::byte* const data = bytes_of(dense);
  watched([&] { executable.write_remote(name, replica, entry, data); });
}

std::unique_ptr<Executable> compile(const ir::Module& module, const std::vector<Line>& lines,
                                    const py::dict& host, const compile::Progress& progress) {
  auto copy = module.clone();
  take_lines(copy->execution(), lines);
  compile::Progress locked;
  if (progress) {
    locked = [&progress](int done, int steps, const std::string& name) {
      py::gil_scoped_acquire acquire;
      progress(done, steps, name);
    };
  }
  const compile::HostOptions options = host_options_of(host);
  return watched([&] { return session::compile(std::move(copy), options, locked); });
}

void run_pass(ir::Module& module, const Text& name, const std::vector<Line>& lines) {
  take_lines(module.execution(), lines);
  compile::PassRunner({}, 1).run(name.value, module);
}

void bind_ir(py::module_& m) {
  bind_ir_building(m);
  module_class(m)
      .def("__str__", [](const ir::Module& module) { return ir::print(module); })
      .def(
          "text",
          [](const ir::Module& module, bool locations) {
            return ir::print(module, {.locations = locations});
          },
          py::arg("locations") = false)
      .def("verify", [](const ir::Module& module) { ir::verify(module); })
      .def("clone", &ir::Module::clone)
      .def("equals",
           [](const ir::Module& a, const ir::Module& b) { return ir::structurally_equal(a, b); });
  m.def(
      "parse",
      [](const std::variant<py::str, py::bytes>& text, const Text& origin) {
        const auto object = std::visit([](const py::object& any) { return any; }, text);
        return ir::parse(bytes_of_text(object), ops::registry(), origin.value);
      },
      "Reads a module from its text.", py::arg("text"), py::arg("origin") = "text");
  m.def("run_pass", &run_pass, "Runs one pass, by name, on the module in place.", py::arg("module"),
        py::arg("name"), py::arg("lines") = py::list());
}

std::unique_ptr<Executable> load(const std::variant<py::str, py::bytes>& text,
                                 const py::dict& host) {
  const auto object = std::visit([](const py::object& any) { return any; }, text);
  const compile::HostOptions options = host_options_of(host);
  const std::string bytes = bytes_of_text(object);
  return watched([&] { return session::load(bytes, ops::registry(), options); });
}

void bind_executable(py::module_& m) {
  auto types = [](const std::vector<ir::Type>& list) {
    std::vector<std::pair<std::string, ir::Shape>> out;
    for (const ir::Type& type : list) out.emplace_back(ir::name(type.dtype), type.shape);
    return out;
  };
  py::class_<Executable>(m, "Executable", "A compiled module with the device memory of its state.")
      .def_property_readonly("input_types",
                             [types](const Executable& e) { return types(e.input_types()); })
      .def_property_readonly("output_types",
                             [types](const Executable& e) { return types(e.output_types()); })
      .def("run", &run,
           "Runs one step on dense arrays of `input_types` and returns arrays of `output_types`.")
      .def("forget_partial_state", &Executable::forget_partial_state)
      .def("attach", [](Executable& e) { watched([&] { e.attach(); }); })
      .def("has_failed", &Executable::has_failed)
      .def("anchored", &Executable::anchored)
      .def("random_state", &Executable::random_state)
      .def("set_random_state", &Executable::set_random_state)
      .def_property_readonly("states",
                             [](const Executable& e) {
                               std::vector<std::string> names;
                               for (const auto& slot : e.states())
                                 names.push_back(slot.name.text());
                               return names;
                             })
      .def_property_readonly(
          "replicas", &replicas_of,
          "The replicas of this process: (first, count, count in all processes).")
      .def("remote_groups", &remote_groups,
           "The groups of the slot that have no replica in this process, as (group, instance of "
           "its first replica). Their rows of read_state are 0.",
           py::arg("name"))
      .def("exchange", &exchange,
           "Replaces each row of an array, in place, by the row of the instance that owns it. All "
           "instances must call it. `what` names the array in errors.",
           py::arg("array"), py::arg("owners"), py::arg("what"))
      .def("read_state", &read_state, py::arg("name"))
      .def("write_state", &write_state, py::arg("name"), py::arg("value"))
      .def("read_remote", &read_remote, "Row `entry` of a remote buffer of a replica.",
           py::arg("name"), py::arg("replica"), py::arg("entry"))
      .def("write_remote", &write_remote, py::arg("name"), py::arg("replica"), py::arg("entry"),
           py::arg("row"))
      .def(
          "text",
          [](const Executable& e, const Text& form, bool locations) {
            return e.text(form, locations);
          },
          py::arg("form"), py::arg("locations") = false)
      .def("report", [](const Executable& e) { return report_dict(e.report()); })
      .def("inspect", &inspect_dict,
           "The contents and the work of the program as columns: see poptorch_core.reports.data.")
      .def("form_lines", &form_lines_dict, "The lines of the ops of each IR stage, with their ids.")
      .def(
          "check_memory",
          [](const Executable& e, const std::string& limit) {
            account::check_memory_limit(e.program(), account::memory_limit_of(limit));
          },
          "Makes the check that the host option late_memory_check postponed: logs a warning or "
          "raises Error for a program that does not fit, as the host option memory_limit says.",
          py::arg("limit"));
  m.def(
      "compile", &compile,
      "Compiles a copy of the module into an executable. Adds `lines` to the module's description "
      "of its execution. Calls `progress` with (steps done, steps in all, name of the step).",
      py::arg("module"), py::arg("lines") = py::list(), py::arg("host") = py::dict(),
      py::arg("progress") = compile::Progress());
  m.def("load", &load,
        "Makes an executable from the text of a program, Executable.text('program'). State begins "
        "with the program's initial values, or with 0; write_state changes it.",
        py::arg("text"), py::arg("host") = py::dict());
}

void bind_cbor(py::module_& m) {
  m.def(
      "cbor", [](const Text& json) { return py::bytes(storage::cbor(json.value)); },
      "Converts JSON text to CBOR (RFC 8949).", py::arg("json"));
}

// Binds the table of environment variables and its readers, for the Python layer and the
// documentation.
void bind_environment(py::module_& m) {
  using support::Variable;
  m.def("environment", [] {
    static constexpr const char* kKinds[] = {"text", "choice", "flag", "number", "names"};
    py::list rows;
    for (const Variable& variable : support::environment_variables()) {
      rows.append(py::make_tuple(variable.name, kKinds[static_cast<size_t>(variable.kind)],
                                 variable.doc, variable.allowed,
                                 std::pair(variable.least, variable.most), variable.has_effect));
    }
    return rows;
  });
  m.def("check_environment", &support::check_environment);
  m.def("environment_text", &support::environment_text, py::arg("name"), py::arg("otherwise") = "");
  m.def("environment_flag", &support::environment_flag);
  m.def("environment_number", &support::environment_number);
}

void bind_faults(py::module_& m) {
  m.def(
      "arm_fault",
      [](const Text& text) { return support::arm_fault(support::fault_of(text.value)); },
      "Arms a fault from a text in the format of POPTORCH_FAULT. Returns its number.",
      py::arg("text"));
  m.def("disarm_fault", &support::disarm_fault);
  m.def("has_struck", &support::has_struck);
  m.def(
      "meet_fault",
      [](const Text& point, const Text& place, int64_t index) {
        if (!support::may_meet_faults()) return;
        support::meet_fault(support::fault_point_of(point.value), place.value, index);
      },
      "Must be called once for each occurrence of a point. Triggers the fault that is armed for "
      "it.",
      py::arg("point"), py::arg("place") = "", py::arg("index") = 0);
}

void bind_log(py::module_& m) {
  m.def("set_log_level",
        [](int level) { support::set_log_level(static_cast<support::LogLevel>(level)); });
  m.def("set_line_open", &support::set_line_open);
  m.def("end_open_line", &support::end_open_line);
  m.def(
      "tell_moved_bytes",
      [](const py::object& listener) {
        if (listener.is_none()) return support::tell_moved_bytes({});
        support::tell_moved_bytes([listener](int64_t bytes) {
          const py::gil_scoped_acquire gil;
          try {
            listener(bytes);
          } catch (py::error_already_set& error) {
            error.discard_as_unraisable("tell_moved_bytes");
          }
        });
      },
      "Sets the listener of this thread's large transfers. It is called with the number of further "
      "bytes moved.",
      py::arg("listener"));
  m.def("log_level", [] { return static_cast<int>(support::log_level()); });
  m.def("log", [](int level, const Text& text) {
    support::log(static_cast<support::LogLevel>(level), text.value);
  });
}

}  // namespace
}  // namespace poptorch::bindings

PYBIND11_MODULE(_core, m) {
  using namespace poptorch::bindings;
  try {
    poptorch::emulator::check_host();
  } catch (const poptorch::support::UnsupportedError& error) {
    throw py::import_error(error.what());
  }
  m.doc() = "The compiler and emulator without torch.";
  m.attr("Error") = py::module_::import("poptorch_core.errors").attr("Error");
  register_errors();
  register_watched();
  bind_option_table(m);
  bind_execution(m);
  bind_report_figures(m);
  bind_cost_model(m);
  bind_ir(m);
  bind_executable(m);
  bind_custom_ops(m);
  bind_fabric(m);
  bind_python_ops(m);
  bind_environment(m);
  bind_faults(m);
  bind_cbor(m);
  bind_files(m);
  bind_log(m);
  m.def("torch_version", &poptorch::support::torch_version,
        "Returns the version of torch that PopTorch is built for.");
  m.def("op_names", [] {
    std::vector<std::string> names;
    for (const auto* def : poptorch::ops::registry().all()) names.push_back(def->name);
    return names;
  });
}
