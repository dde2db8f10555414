// poptorch_core._torch: trace, compile and run PyTorch models. python/poptorch_core/_torch.pyi
// states the interface; python/poptorch/_impl/trace/session.py is its caller.
#include <Python.h>
// Python.h comes first; the rest is in order.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <set>
#include <string>

#include "account/memory_limit.hpp"
#include "bindings/compile_options.hpp"
#include "bindings/errors.hpp"
#include "bindings/inspect.hpp"
#include "bindings/line_finder.hpp"
#include "bindings/report.hpp"
#include "bindings/text.hpp"
#include "bindings/torch_attributes.hpp"
#include "bindings/torch_collectives.hpp"
#include "bindings/torch_fabric.hpp"
#include "bindings/torch_files.hpp"
#include "bindings/torch_members.hpp"
#include "bindings/torch_tracing.hpp"
#include "bindings/watched.hpp"
#include "frontends/torch/compile.hpp"
#include "frontends/torch/custom_ops.hpp"
#include "frontends/torch/explain.hpp"
#include "frontends/torch/plain_tensor.hpp"
#include "frontends/torch/tracer/dispatch/outside.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/text.hpp"
#include "session/executable_file.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using frontend::Forward;
using frontend::NamedTensor;
using frontend::TorchExecutable;
using frontend::TraceRequest;
using Call = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
// Each has a name, a tensor, whether it is a buffer, and a tensor with the values if the first does
// not hold them.
using NamedTensors = std::vector<std::tuple<Text, at::Tensor, bool, std::optional<at::Tensor>>>;
using Tensors = std::vector<at::Tensor>;
using TypeText = std::pair<std::string, std::vector<int64_t>>;

// Returns whether `text` is an error of torch about data that a traced tensor does not have.
bool reads_values(const std::string& text) {
  return text.find("values of this tensor are needed on the host") != std::string::npos ||
         text.find("can't convert ipu") != std::string::npos;
}

std::vector<at::Tensor> run_user_code(const Call& call, const std::vector<at::Tensor>& inputs,
                                      LineFinder& finder) {
  const py::gil_scoped_acquire gil;
  try {
    return call(inputs);
  } catch (py::error_already_set& raised) {
    const SpeakingError error(raised);
    if (!reads_values(error.what())) throw error;
    const ir::Location line = finder.of_traceback(error.trace());
    throw support::UserError(support::str(
        "[tracer] the values of a tensor are needed on the host", ir::place_text(line),
        ", but they are not known while the model is traced. Keep numpy(), tolist(), print and "
        "other reads of values out of forward, or return the tensor and read it afterwards."));
  }
}

struct Trace {
  TraceRequest request;
  Forward forward;
};

Trace make_trace(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                 bool training, std::vector<std::string> excludes) {
  auto finder = std::make_shared<LineFinder>(std::move(excludes));
  Trace trace;
  trace.request.inputs = std::move(inputs);
  for (const auto& [name, tensor, is_buffer, host] : state) {
    trace.request.state.push_back({name.value, tensor, is_buffer, host.value_or(at::Tensor())});
  }
  trace.request.training = training;
  trace.request.locate = [finder] { return (*finder)(); };
  trace.forward = [call = std::move(call), finder](const std::vector<at::Tensor>& stand_ins) {
    return run_user_code(call, stand_ins, *finder);
  };
  return trace;
}

std::unique_ptr<TorchExecutable> compile(Call call, std::vector<at::Tensor> inputs,
                                         const NamedTensors& state, const std::vector<Line>& lines,
                                         const py::dict& host, std::vector<std::string> excludes,
                                         const compile::Progress& progress, bool broadcast_buffers,
                                         const std::vector<Text>& input_names) {
  ir::Execution execution;
  take_lines(execution, lines);
  const compile::HostOptions options = host_options_of(host);
  Trace trace = make_trace(std::move(call), std::move(inputs), state, execution.training,
                           std::move(excludes));
  trace.request.input_names.assign(input_names.begin(), input_names.end());
  return watched([&] {
    return frontend::compile_model(trace.request, trace.forward, execution, options, progress,
                                   broadcast_buffers);
  });
}

py::dict profile(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                 const std::vector<Line>& lines, std::vector<std::string> excludes) {
  ir::Execution execution;
  take_lines(execution, lines);
  const Trace trace = make_trace(std::move(call), std::move(inputs), state, execution.training,
                                 std::move(excludes));
  return profile_dict(
      watched([&] { return frontend::profile_model(trace.request, trace.forward, execution); }));
}

py::dict explain(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                 bool training, std::vector<std::string> excludes) {
  const Trace trace =
      make_trace(std::move(call), std::move(inputs), state, training, std::move(excludes));
  const auto found = watched([&] { return frontend::explain(trace.request, trace.forward); });
  using namespace py::literals;
  py::list ops, modules, refusals;
  for (const auto& op : found.ops) ops.append(py::make_tuple(op.name, op.foreign, op.places));
  for (const auto& module : found.modules) {
    modules.append(py::make_tuple(module.path, module.ops, module.activation_bytes));
  }
  for (const auto& refusal : found.refusals) {
    refusals.append(py::make_tuple(refusal.op, refusal.reason, refusal.places));
  }
  return py::dict("ops"_a = ops, "modules"_a = modules, "refusals"_a = refusals,
                  "end"_a = found.end);
}

std::string trace_text(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                       bool training, std::vector<std::string> excludes, bool locations) {
  const Trace trace =
      make_trace(std::move(call), std::move(inputs), state, training, std::move(excludes));
  const auto traced = frontend::trace(trace.request, trace.forward);
  return ir::print(*traced.module, {.locations = locations});
}

// Traces a model as compile() does.
void trace_for(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
               const std::vector<Line>& lines, std::vector<std::string> excludes,
               const std::vector<Text>& input_names) {
  ir::Execution execution;
  take_lines(execution, lines);
  Trace trace = make_trace(std::move(call), std::move(inputs), state, execution.training,
                           std::move(excludes));
  trace.request.input_names.assign(input_names.begin(), input_names.end());
  watched([&] { frontend::trace_for(execution, trace.request, trace.forward); });
}

// Returns the user's line. A running trace finds it by its own rule.
std::string user_location(std::vector<std::string> excludes) {
  const auto* tracer = frontend::Tracer::current();
  const ir::Location line = tracer ? tracer->location() : LineFinder(std::move(excludes))();
  return line.empty() ? "an unknown line" : support::str(line.file, ":", line.line);
}

TypeText type_text(const ir::Type& type) { return {std::string(ir::name(type.dtype)), type.shape}; }

std::vector<TypeText> type_texts(const std::vector<ir::Type>& types) {
  std::vector<TypeText> result;
  for (const auto& type : types) result.push_back(type_text(type));
  return result;
}

py::list outputs_of(const TorchExecutable& model) {
  py::list result;
  for (const auto& output : model.outputs()) {
    result.append(output.index >= 0 ? py::cast(output.index) : py::cast(output.host));
  }
  return result;
}

py::list states_of(const TorchExecutable& model) {
  py::list result;
  for (const auto& slot : model.compiled().states()) {
    const auto [dtype, shape] = type_text(model.compiled().state_type(slot));
    result.append(py::make_tuple(slot.name.text(), slot.kind, dtype, shape));
  }
  return result;
}

std::set<std::string> state_kinds(const TorchExecutable& model) {
  std::set<std::string> kinds;
  for (const auto& slot : model.compiled().states()) kinds.insert(slot.kind);
  return kinds;
}

void bind_executable(py::module_& m) {
  py::class_<TorchExecutable>(m, "Executable")
      .def_property_readonly("outputs", outputs_of)
      .def("run", [](TorchExecutable& e,
                     const Tensors& inputs) { return watched([&] { return e.run(inputs); }); })
      .def_property_readonly("written_inputs", &TorchExecutable::written_inputs)
      .def_property_readonly("has_forms",
                             [](const TorchExecutable& e) { return e.compiled().has_forms(); })
      .def(
          "save",
          [](const TorchExecutable& e, const Text& path,
             std::vector<std::pair<std::string, py::bytes>> sections,
             std::vector<std::string> input_names, bool state, bool random_state) {
            session::SaveOptions options{.state = state,
                                         .random_state = random_state,
                                         .input_names = std::move(input_names)};
            for (auto& [name, bytes] : sections) options.sections.emplace_back(name, bytes);
            watched([&] { session::save(e.compiled(), path.value, options); });
          },
          py::arg("path"), py::arg("sections"), py::arg("input_names"), py::arg("state"),
          py::arg("random_state"))
      .def("set_name", &TorchExecutable::set_name, "Sets the name of the model for profilers.",
           py::arg("name"))
      .def("close", [](TorchExecutable& e) { e.compiled().close(); })
      .def("reopen", [](TorchExecutable& e) { watched([&] { e.compiled().reopen(); }); })
      .def("forget_partial_state",
           [](TorchExecutable& e) { return e.compiled().forget_partial_state(); })
      .def_property_readonly(
          "replicas",
          [](const TorchExecutable& e) {
            const auto here = e.compiled().replicas();
            return std::tuple(here.first, here.count, here.all);
          },
          "The replicas of this process: (first, count, count in all processes).")
      .def("attach", [](TorchExecutable& e) { watched([&] { e.compiled().attach(); }); })
      .def("has_failed", [](const TorchExecutable& e) { return e.compiled().has_failed(); })
      .def("input_types",
           [](const TorchExecutable& e) { return type_texts(e.compiled().input_types()); })
      .def("output_types",
           [](const TorchExecutable& e) { return type_texts(e.compiled().output_types()); })
      .def("weights_to_host",
           [](const TorchExecutable& e) { watched([&] { e.weights_to_host(); }); })
      .def(
          "weights_to_device",
          [](TorchExecutable& e, const std::optional<std::vector<std::string>>& names) {
            if (names && names->empty()) return;
            watched([&] { e.weights_to_device(names.value_or(ir::Strings{})); });
          },
          py::arg("names") = py::none())
      .def("states", states_of)
      .def("state_kinds", state_kinds)
      .def("read_state",
           [](const TorchExecutable& e, const std::string& name) {
             return watched([&] { return e.read_state(name); });
           })
      .def(
          "fetch_state",
          [](const TorchExecutable& e, const std::string& name) {
            return watched([&] { return e.fetch_state(name); });
          },
          "Like read_state, but includes the values of other processes. All processes must call "
          "it.",
          py::arg("name"))
      .def(
          "owners",
          [](const TorchExecutable& e, const Text& name) {
            return e.compiled().owners(name.value);
          },
          "The process of each group's first replica; empty if each process can read the whole "
          "slot by itself.",
          py::arg("name"))
      .def("write_state",
           [](TorchExecutable& e, const std::string& name, const at::Tensor& value) {
             watched([&] { e.write_state(name, value); });
           })
      .def(
          "text",
          [](const TorchExecutable& e, const Text& form, bool locations) {
            return e.compiled().text(form, locations);
          },
          py::arg("form"), py::arg("locations") = false)
      .def("report",
           [](const TorchExecutable& model) { return report_dict(model.compiled().report()); })
      .def("inspect", [](const TorchExecutable& model) { return inspect_dict(model.compiled()); })
      .def("form_lines",
           [](const TorchExecutable& model) { return form_lines_dict(model.compiled()); })
      .def("check_memory",
           [](const TorchExecutable& model, const std::string& limit) {
             account::check_memory_limit(model.compiled().program(),
                                         account::memory_limit_of(limit));
           })
      .def("ipus", [](const TorchExecutable& model) { return model.compiled().ipus(); })
      .def("highest_ipu",
           [](const TorchExecutable& model) { return model.compiled().highest_ipu(); })
      .def("schedule",
           [](const TorchExecutable& model, int64_t micro_batches) {
             return schedule_dict(session::make_schedule(model.compiled(), micro_batches));
           })
      .def("drawing",
           [](const TorchExecutable& model, int64_t micro_batches) {
             return session::draw(session::make_schedule(model.compiled(), micro_batches));
           })
      .def("anchored", [](const TorchExecutable& e) { return e.compiled().anchored(); })
      .def("anchor_names", [](const TorchExecutable& e) { return e.compiled().anchor_names(); })
      .def("transfer_times",
           [](const TorchExecutable& e, size_t stream) {
             return watched([&] { return e.compiled().transfer_times(stream); });
           })
      .def("random_state",
           [](const TorchExecutable& e) {
             return watched([&] { return e.compiled().random_state(); });
           })
      .def("set_random_state", [](TorchExecutable& e, std::pair<uint64_t, uint64_t> state) {
        watched([&] { e.compiled().set_random_state(state); });
      });
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  register_errors();
  frontend::set_raise_outside([](const support::Error& error) {
    const py::gil_scoped_acquire gil;
    raise_python_error(error);
    throw py::error_already_set();
  });
  register_watched();
  bind_executable(m);
  bind_files(m);
  bind_collectives(m);
  bind_wired_fabric(m);
  bind_attributes(m);
  bind_members(m);
  bind_tracing(m);
  m.def("compile", compile, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("lines"), py::arg("host"), py::arg("location_excludes") = ir::Strings{},
        py::arg("progress") = py::none(), py::arg("broadcast_buffers") = false,
        py::arg("input_names") = std::vector<Text>{});
  m.def("profile", profile, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("lines"), py::arg("location_excludes") = ir::Strings{});
  m.def("explain", explain, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("training") = false, py::arg("location_excludes") = ir::Strings{});
  m.def("trace", trace_text, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("training") = false, py::arg("location_excludes") = ir::Strings{},
        py::arg("locations") = false);
  m.def("trace_for", trace_for, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("lines"), py::arg("location_excludes") = ir::Strings{},
        py::arg("input_names") = std::vector<Text>{});
  m.def(
      "run_custom_op",
      [](const Tensors& inputs, const Text& name, const Text& domain, int64_t version,
         const Text& attributes) {
        const py::gil_scoped_release release;
        return frontend::run_custom_op(inputs, name, domain, version, attributes);
      },
      "Runs a custom op on tensors of the host.", py::arg("inputs"), py::arg("name"),
      py::arg("domain"), py::arg("version"), py::arg("attributes"));
  m.def("user_location", user_location, py::arg("location_excludes"));
  m.def("set_log_level",
        [](int level) { support::set_log_level(static_cast<support::LogLevel>(level)); });
  m.def("set_compiler_log_level",
        [](int level) { support::set_compiler_log_level(static_cast<support::LogLevel>(level)); });
}

}  // namespace poptorch::bindings
