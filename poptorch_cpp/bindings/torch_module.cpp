// poptorch_core._torch: trace, compile and run PyTorch models. python/poptorch_core/_torch.pyi
// states the interface; python/poptorch/_tracer.py is its caller.
#include <Python.h>
// Python.h first; the rest in order.
#include <frameobject.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <unordered_map>

#include "bindings/errors.hpp"
#include "bindings/report.hpp"
#include "frontends/torch/compile.hpp"
#include "frontends/torch/tracer/types.hpp"
#include "ir/text.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using frontend::Forward;
using frontend::NamedTensor;
using frontend::TorchExecutable;
using frontend::TraceRequest;
using support::Symbol;
using Call = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
// Name, tensor, whether it is a buffer, and what holds the values when the tensor does not.
using NamedTensors =
    std::vector<std::tuple<std::string, at::Tensor, bool, std::optional<at::Tensor>>>;
using TypeText = std::pair<std::string, std::vector<int64_t>>;

// --- the user's line
// ------------------------------------------------------------------------------

// Finds the innermost Python frame outside the excluded files. Verdicts are cached per code object,
// which the finder keeps alive.
class LineFinder {
 public:
  explicit LineFinder(std::vector<std::string> excludes) : excludes_(std::move(excludes)) {}

  ir::Location operator()() {
    const py::gil_scoped_acquire gil;
    auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    while (frame) {
      auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
      if (const auto file = user_file(raw)) return {*file, PyFrame_GetLineNumber(raw)};
      frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
    }
    return {};
  }

  // The innermost user line of a traceback.
  ir::Location of_traceback(py::handle traceback) {
    ir::Location found;
    for (auto* at = reinterpret_cast<PyTracebackObject*>(traceback.ptr());
         at && reinterpret_cast<PyObject*>(at) != Py_None; at = at->tb_next) {
      if (const auto file = user_file(at->tb_frame)) {
        const auto line =
            py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(at)).attr("tb_lineno");
        found = {*file, line.cast<int>()};
      }
    }
    return found;
  }

 private:
  const std::optional<Symbol>& user_file(PyFrameObject* frame) {
    auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const auto known = files_.find(code.ptr());
    if (known != files_.end()) return known->second.second;
    const auto name = code.attr("co_filename").cast<std::string>();
    std::optional<Symbol> file;
    if (!excluded(name)) file = Symbol(name);
    PyObject* key = code.ptr();
    return files_.emplace(key, std::pair(std::move(code), file)).first->second.second;
  }
  bool excluded(const std::string& name) const {
    if (name.starts_with("<")) return true;
    for (const auto& part : excludes_) {
      if (name.find(part) != std::string::npos) return true;
    }
    return false;
  }

  std::vector<std::string> excludes_;
  std::unordered_map<PyObject*, std::pair<py::object, std::optional<Symbol>>> files_;
};

// --- arguments
// ------------------------------------------------------------------------------------

template <typename T>
void take(const py::dict& from, const char* key, T& into) {
  if (from.contains(key)) into = from[key].cast<T>();
}

ir::DType dtype_named(const py::dict& from, const char* key) {
  if (!from.contains(key)) return ir::DType::kF32;
  const auto name = from[key].cast<std::string>();
  const auto dtype = ir::dtype_from_name(name);
  if (!dtype) throw support::UserError("[optimiser] unknown dtype '" + name + "'.");
  return *dtype;
}

transforms::OptimiserSpec optimiser_of(const py::dict& given) {
  transforms::OptimiserSpec spec;
  take(given, "kind", spec.kind);
  for (const auto& item : given["groups"].cast<py::list>()) {
    const auto group = item.cast<py::dict>();
    transforms::OptimiserGroup out;
    take(group, "values", out.values);
    for (const auto& name : group["variable"].cast<std::vector<std::string>>()) {
      out.variable.insert(name);
    }
    take(group, "parameters", out.parameters);
    spec.groups.push_back(std::move(out));
  }
  take(given, "loss_scaling", spec.loss_scaling);
  take(given, "loss_scaling_variable", spec.loss_scaling_variable);
  take(given, "automatic_loss_scaling", spec.automatic_loss_scaling);
  take(given, "running_mean", spec.running_mean);
  take(given, "max_grad_norm", spec.max_grad_norm);
  spec.accumulator_type = dtype_named(given, "accumulator_type");
  spec.first_moment_type = dtype_named(given, "first_moment_type");
  spec.second_moment_type = dtype_named(given, "second_moment_type");
  return spec;
}

transforms::Strategy strategy_of(const py::dict& given) {
  std::string name = "pipelined";
  take(given, "strategy", name);
  static const std::pair<const char*, transforms::Strategy> kNames[] = {
      {"pipelined", transforms::Strategy::kPipelined},
      {"sharded", transforms::Strategy::kSharded},
      {"serial_phased", transforms::Strategy::kSerialPhased},
      {"parallel_phased", transforms::Strategy::kParallelPhased}};
  for (const auto& [known, strategy] : kNames) {
    if (name == known) return strategy;
  }
  throw support::UserError("[options] unknown strategy '" + name + "'.");
}

target::TensorLocation location_of(const py::dict& given) {
  target::TensorLocation location;
  if (!given["on_chip"].is_none()) location.on_chip = given["on_chip"].cast<bool>();
  take(given, "least_off_chip", location.least_off_chip);
  take(given, "sharded", location.sharded);
  take(given, "least_sharded", location.least_sharded);
  take(given, "io_tiles_load", location.io_tiles_load);
  take(given, "io_tiles_store", location.io_tiles_store);
  return location;
}

target::TensorLocations locations_of(const py::dict& given) {
  target::TensorLocations locations;
  std::pair<const char*, target::TensorLocation*> kinds[] = {
      {"weights", &locations.weights},
      {"activations", &locations.activations},
      {"optimiser_state", &locations.optimiser_state},
      {"accumulators", &locations.accumulators}};
  for (auto& [kind, location] : kinds) {
    if (given.contains(kind)) *location = location_of(given[kind].cast<py::dict>());
  }
  return locations;
}

session::CompileOptions options_of(const py::dict& given,
                                   const std::optional<py::dict>& optimiser) {
  session::CompileOptions options;
  take(given, "training", options.training);
  options.strategy = strategy_of(given);
  int liveness = 0;
  take(given, "liveness", liveness);
  options.phasing.liveness = static_cast<transforms::Liveness>(liveness);
  take(given, "separate_backward_phase", options.phasing.separate_backward);
  if (given.contains("locations")) {
    options.locations = locations_of(given["locations"].cast<py::dict>());
  }
  take(given, "round_ipu_count", options.round_ipu_count);
  take(given, "device_iterations", options.device_iterations);
  take(given, "gradient_accumulation", options.gradient_accumulation);
  take(given, "replication_factor", options.replication_factor);
  int mode = static_cast<int>(options.output_mode);
  take(given, "output_mode", mode);
  options.output_mode = static_cast<session::OutputMode>(mode);
  take(given, "output_period", options.output_period);
  take(given, "mean_reduction", options.mean_reduction);
  take(given, "random_seed", options.random_seed);
  take(given, "input_group_size", options.input_group_size);
  take(given, "input_group_stride", options.input_group_stride);
  take(given, "floating_point_exceptions", options.floating_point_exceptions);
  take(given, "recompute", options.recompute);
  if (given.contains("replica_groups")) {
    using Given = std::map<std::string, std::tuple<int, int, bool>>;
    for (const auto& [name, group] : given["replica_groups"].cast<Given>()) {
      const auto& [size, stride, all_replicas] = group;
      options.replica_groups[name] = {size, stride, all_replicas};
    }
  }
  take(given, "stochastic_rounding", options.stochastic_rounding);
  if (given.contains("anchors")) {
    using Given = std::vector<std::tuple<std::string, int, int64_t>>;
    for (const auto& [name, keep, period] : given["anchors"].cast<Given>()) {
      options.anchors.push_back({name, static_cast<session::OutputMode>(keep), period});
    }
  }
  take(given, "threads", options.threads);
  take(given, "device", options.device);
  take(given, "memory_limit", options.memory_limit);
  if (optimiser) options.optimiser = optimiser_of(*optimiser);
  return options;
}

// --- tracing
// --------------------------------------------------------------------------------------

// Errors that torch raises when it reaches for data which a traced tensor has not.
bool reads_values(const std::string& text) {
  return text.find("values of this tensor are needed on the host") != std::string::npos ||
         text.find("can't convert ipu") != std::string::npos;
}

std::vector<at::Tensor> run_user_code(const Call& call, const std::vector<at::Tensor>& inputs,
                                      LineFinder& finder) {
  const py::gil_scoped_acquire gil;
  try {
    return call(inputs);
  } catch (py::error_already_set& error) {
    if (!reads_values(error.what())) throw;
    const ir::Location line = finder.of_traceback(error.trace());
    throw support::UserError(support::str(
        "[tracer] the values of a tensor are needed on the host (", line.file, ":", line.line,
        "), but they are not known while the model is traced. Keep numpy(), tolist(), print and "
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
    trace.request.state.push_back({name, tensor, is_buffer, host.value_or(at::Tensor())});
  }
  trace.request.training = training;
  trace.request.locate = [finder] { return (*finder)(); };
  trace.forward = [call = std::move(call), finder](const std::vector<at::Tensor>& stand_ins) {
    return run_user_code(call, stand_ins, *finder);
  };
  return trace;
}

std::unique_ptr<TorchExecutable> compile(Call call, std::vector<at::Tensor> inputs,
                                         const NamedTensors& state, const py::dict& options,
                                         const std::optional<py::dict>& optimiser,
                                         std::vector<std::string> excludes,
                                         const session::Progress& progress) {
  const auto compile_options = options_of(options, optimiser);
  const Trace trace = make_trace(std::move(call), std::move(inputs), state,
                                 compile_options.training, std::move(excludes));
  const py::gil_scoped_release release;
  return frontend::compile_model(trace.request, trace.forward, compile_options, progress);
}

py::dict profile(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                 const py::dict& options, const std::optional<py::dict>& optimiser,
                 std::vector<std::string> excludes) {
  const auto compile_options = options_of(options, optimiser);
  const Trace trace = make_trace(std::move(call), std::move(inputs), state,
                                 compile_options.training, std::move(excludes));
  session::Profile result;
  {
    const py::gil_scoped_release release;
    result = frontend::profile_model(trace.request, trace.forward, compile_options);
  }
  return profile_dict(result);
}

std::string trace_text(Call call, std::vector<at::Tensor> inputs, const NamedTensors& state,
                       bool training, std::vector<std::string> excludes, bool locations) {
  const Trace trace =
      make_trace(std::move(call), std::move(inputs), state, training, std::move(excludes));
  const auto traced = frontend::trace(trace.request, trace.forward);
  return ir::print(*traced.module, {.locations = locations});
}

// --- results
// --------------------------------------------------------------------------------------

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

py::list timeline_of(const TorchExecutable& model, int64_t micro_batches) {
  py::list result;
  for (const auto& work : model.compiled().timeline(micro_batches)) {
    result.append(py::dict(py::arg("ipu") = work.ipu, py::arg("stage") = work.stage,
                           py::arg("micro_batch") = work.micro_batch,
                           py::arg("backward") = work.backward, py::arg("cycles") = work.cycles));
  }
  return result;
}

void push_scope(const std::string& name) {
  if (auto* tracer = frontend::Tracer::current()) tracer->push_scope(name);
}

void pop_scope() {
  if (auto* tracer = frontend::Tracer::current()) tracer->pop_scope();
}

void set_block(int ipu, int stage, int phase, const std::string& name, bool scoped) {
  if (auto* tracer = frontend::Tracer::current()) {
    tracer->set_block(ipu, stage, phase, name, scoped);
  }
}

// --- autograd.Function
// ----------------------------------------------------------------------------

using OptionalTensors = std::vector<std::optional<at::Tensor>>;

frontend::Tracer& running_trace() {
  if (auto* tracer = frontend::Tracer::current()) return *tracer;
  throw support::InternalError("[tracer] there is no trace.");
}

std::vector<at::Tensor> begin_function(const std::string& name,
                                       const std::vector<at::Tensor>& arguments) {
  return running_trace().begin_function(name, arguments);
}

OptionalTensors begin_backward(const std::vector<at::Tensor>& outputs) {
  OptionalTensors result;
  for (auto& gradient : running_trace().begin_backward(outputs)) {
    result.push_back(gradient.defined() ? std::optional(gradient) : std::nullopt);
  }
  return result;
}

std::vector<at::Tensor> end_function(const OptionalTensors& gradients) {
  std::vector<at::Tensor> given;
  for (const auto& gradient : gradients) given.push_back(gradient.value_or(at::Tensor()));
  return running_trace().end_function(given);
}

void bind_executable(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<TorchExecutable>(m, "Executable")
      .def_property_readonly("outputs", outputs_of)
      .def("run", &TorchExecutable::run, Release())
      .def("input_types",
           [](const TorchExecutable& e) { return type_texts(e.compiled().input_types()); })
      .def("output_types",
           [](const TorchExecutable& e) { return type_texts(e.compiled().output_types()); })
      .def("weights_to_host", &TorchExecutable::weights_to_host, Release())
      .def(
          "weights_to_device",
          [](TorchExecutable& e, const std::optional<std::vector<std::string>>& names) {
            if (!names || !names->empty()) e.weights_to_device(names.value_or(ir::Strings{}));
          },
          py::arg("names") = py::none())
      .def("states", states_of)
      .def("read_state", &TorchExecutable::read_state)
      .def("write_state", &TorchExecutable::write_state)
      .def(
          "text",
          [](const TorchExecutable& e, const std::string& form, bool locations) {
            return e.compiled().text(form, locations);
          },
          py::arg("form"), py::arg("locations") = false)
      .def("report",
           [](const TorchExecutable& model) { return report_dict(model.compiled().report()); })
      .def("ipus", [](const TorchExecutable& model) { return model.compiled().ipus(); })
      .def("timeline", timeline_of)
      .def("anchored", [](const TorchExecutable& e) { return e.compiled().anchored(); })
      .def("anchor_names", [](const TorchExecutable& e) { return e.compiled().anchor_names(); })
      .def("transfer_times", [](const TorchExecutable& e,
                                size_t stream) { return e.compiled().transfer_times(stream); })
      .def("random_state", [](const TorchExecutable& e) { return e.compiled().random_state(); })
      .def("set_random_state", &TorchExecutable::set_random_state);
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  register_errors();
  bind_executable(m);
  m.def("compile", compile, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("options"), py::arg("optimiser") = py::none(),
        py::arg("location_excludes") = ir::Strings{}, py::arg("progress") = py::none());
  m.def("profile", profile, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("options"), py::arg("optimiser") = py::none(),
        py::arg("location_excludes") = ir::Strings{});
  m.def("trace", trace_text, py::arg("call"), py::arg("inputs"), py::arg("named_tensors"),
        py::arg("training") = false, py::arg("location_excludes") = ir::Strings{},
        py::arg("locations") = false);
  m.def("is_tracing", [] { return frontend::Tracer::current() != nullptr; });
  m.def("is_traced", [](const at::Tensor& tensor) { return frontend::is_dataless(tensor); });
  m.def("call_untraced", [](const py::object& function, const py::args& args) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::DeferredInit);
    return function(*args);
  });
  m.def("push_scope", push_scope);
  m.def("pop_scope", pop_scope);
  m.def("set_block", set_block, py::arg("ipu"), py::arg("stage"), py::arg("phase"), py::arg("name"),
        py::arg("scoped"));
  m.def("in_function", [] { return running_trace().in_function(); });
  m.def("begin_function", begin_function);
  m.def("begin_backward", begin_backward);
  m.def("end_function", end_function);
  m.def("set_log_level",
        [](int level) { support::set_log_level(static_cast<support::LogLevel>(level)); });
}

}  // namespace poptorch::bindings
