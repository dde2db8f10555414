#include <Python.h>
// Python.h comes first; the rest is in order.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>

#include "bindings/text.hpp"
#include "bindings/torch_tracing.hpp"
#include "frontends/torch/plain_tensor.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using frontend::Region;
using Tensors = std::vector<at::Tensor>;

void push_scope(const Text& name) {
  if (auto* tracer = frontend::Tracer::current()) tracer->push_scope(name.value);
}

void pop_scope() {
  if (auto* tracer = frontend::Tracer::current()) tracer->pop_scope();
}

std::string set_labels(const Text& labels) {
  auto* tracer = frontend::Tracer::current();
  return tracer ? tracer->set_labels(labels.value).text() : "";
}

frontend::Tracer& running_trace() {
  if (auto* tracer = frontend::Tracer::current()) return *tracer;
  throw support::InternalError("[tracer] there is no trace.");
}

void begin_multi_conv() {
  auto& tracer = running_trace();
  tracer.multi_convs().begin(tracer.place());
}

void end_multi_conv(bool serial,
                    const std::vector<std::pair<std::string, std::vector<std::string>>>& values) {
  auto& tracer = running_trace();
  tracer.multi_convs().end({serial, values}, tracer.place());
}

void set_block(int ipu, int stage, int phase, const Text& name, bool scoped) {
  if (auto* tracer = frontend::Tracer::current()) {
    tracer->set_block(ipu, stage, phase, name.value, scoped);
  }
}

using OptionalTensors = std::vector<std::optional<at::Tensor>>;

std::vector<at::Tensor> begin_function(const Text& name, const std::vector<at::Tensor>& arguments) {
  return running_trace().begin_function(name.value, arguments);
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

void bind_regions(py::module_& m) {
  py::class_<Region, std::shared_ptr<Region>>(m, "Region");
  m.def("begin_region",
        [](const Tensors& arguments) { return running_trace().begin_region(arguments); });
  m.def("end_region", [](const Tensors& outputs) { return running_trace().end_region(outputs); });
  m.def("abandon_region", [] { running_trace().abandon_region(); });
  m.def("repeat", [](Region& body, int64_t count, const Tensors& outputs) {
    return running_trace().repeat(body, count, outputs);
  });
  m.def("branch", [](const at::Tensor& condition, Region& then_region, Region& else_region,
                     const Tensors& outputs) {
    return running_trace().branch(condition, then_region, else_region, outputs);
  });
}

void bind_functions(py::module_& m) {
  m.def("in_function", [] { return running_trace().in_function(); });
  m.def("begin_function", begin_function);
  m.def("begin_backward", begin_backward);
  m.def("end_function", end_function);
  m.def("abandon_function", [] { running_trace().abandon_function(); });
  m.def("follows_leaf",
        [](const at::Tensor& tensor) { return running_trace().follows_leaf(tensor); });
  m.def("close_to_gradients",
        [](const Text& topic, const Text& what, const Tensors& arguments, const Tensors& results) {
          running_trace().close_to_gradients(topic.value, what.value, arguments, results);
        });
  m.def("begin_hook", [](const at::Tensor& tensor) { return running_trace().begin_hook(tensor); });
  m.def("end_hook", [](const at::Tensor& tensor, const at::Tensor& gradient) {
    running_trace().end_hook(tensor, gradient);
  });
  m.def("use_results", [](const Tensors& tensors, const Tensors& results) {
    running_trace().use_results(tensors, results);
  });
  m.def("make_leaf", [](const at::Tensor& tensor) { return running_trace().make_leaf(tensor); });
  m.def("gradients", [](const Tensors& outputs, const Tensors& seeds, const Tensors& inputs) {
    std::vector<std::optional<at::Tensor>> found;
    for (at::Tensor& gradient : running_trace().gradients(outputs, seeds, inputs)) {
      found.push_back(gradient.defined() ? std::optional(std::move(gradient)) : std::nullopt);
    }
    return found;
  });
}

}  // namespace

void bind_tracing(py::module_& m) {
  bind_regions(m);
  bind_functions(m);
  // Is false inside code that runs untraced during a trace.
  m.def("is_tracing", [] {
    return frontend::Tracer::current() != nullptr &&
           !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::DeferredInit);
  });
  m.def("is_training", [] {
    const auto* tracer = frontend::Tracer::current();
    return tracer != nullptr && tracer->training();
  });
  m.def("is_traced", [](const at::Tensor& tensor) { return frontend::is_dataless(tensor); });
  m.def("why_not_plain", [](const at::Tensor& tensor) {
    const frontend::NotPlain found = frontend::why_not_plain(tensor);
    return std::pair(found.problem, found.cure);
  });
  m.def(
      "are_plain",
      [](const Tensors& tensors) {
        return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
          return frontend::why_not_plain(tensor).problem.empty();
        });
      },
      py::arg("tensors"), "Returns whether why_not_plain() has no reason for any of the tensors.");
  m.def("call_untraced", [](const py::object& function, const py::args& args) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::DeferredInit);
    return function(*args);
  });
  m.def("freeze", [](const Tensors& members) { running_trace().freeze(members); });
  m.def("written_members", [] { return running_trace().written_members(); });
  m.def("traced_text", [](const Tensors& tensors) { return running_trace().text(tensors); });
  m.def("known", [](const at::Tensor& tensor) { return running_trace().known(tensor); });
  m.def("push_scope", push_scope);
  m.def("pop_scope", pop_scope);
  m.def("set_labels", set_labels);
  m.def("begin_multi_conv", begin_multi_conv);
  m.def("end_multi_conv", end_multi_conv, py::arg("serial"), py::arg("values"));
  m.def("abandon_multi_conv", [] { running_trace().multi_convs().abandon(); });
  m.def("set_block", set_block, py::arg("ipu"), py::arg("stage"), py::arg("phase"), py::arg("name"),
        py::arg("scoped"));
}

}  // namespace poptorch::bindings
