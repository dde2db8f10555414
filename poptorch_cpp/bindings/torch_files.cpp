#include <Python.h>
// Python.h comes first; the rest is in order.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <variant>

#include "bindings/compile_options.hpp"
#include "bindings/text.hpp"
#include "bindings/torch_files.hpp"
#include "bindings/watched.hpp"
#include "frontends/torch/saved.hpp"
#include "ir/option_table.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "session/executable_file.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using frontend::TorchExecutable;
using frontend::TraceResult;
using File = storage::Container;
using FilePointer = std::shared_ptr<const File>;
using Sources = std::vector<std::variant<int, at::Tensor>>;
using NamedTensors = std::vector<std::tuple<Text, at::Tensor, bool, std::optional<at::Tensor>>>;

TraceResult trace_result(const NamedTensors& state, const Sources& outputs,
                         std::vector<size_t> written_inputs) {
  TraceResult traced;
  for (const auto& [name, tensor, is_buffer, host] : state) {
    traced.state.push_back({name.value, tensor, is_buffer, host.value_or(at::Tensor())});
  }
  for (const auto& source : outputs) {
    const int* index = std::get_if<int>(&source);
    traced.outputs.push_back(index ? frontend::TraceOutput{*index, {}}
                                   : frontend::TraceOutput{-1, std::get<at::Tensor>(source)});
  }
  traced.written_inputs = std::move(written_inputs);
  return traced;
}

std::unique_ptr<TorchExecutable> load(const FilePointer& file, const NamedTensors& state,
                                      const Sources& outputs, std::vector<size_t> written_inputs,
                                      const py::dict& host, bool with_state) {
  const compile::HostOptions options = host_options_of(host);
  const TraceResult traced = trace_result(state, outputs, std::move(written_inputs));
  return watched([&] { return frontend::load_model(file, traced, options, with_state); });
}

ir::Attrs plain_options(const ir::Execution& execution) {
  for (const ir::ExecutionLine& line : ir::lines_of(execution)) {
    if (line.keyword == "execution") return line.attrs;
  }
  return {};
}

// Returns the options in which the file's executable and `lines` differ: (option, file's, theirs).
std::vector<std::tuple<std::string, std::string, std::string>> differences(
    const FilePointer& file, const std::vector<Line>& lines) {
  ir::Execution execution;
  take_lines(execution, lines);
  const auto module = ir::parse(file->read("execution"), ops::registry(), file->name());
  const ir::Attrs saved = plain_options(module->execution()), wanted = plain_options(execution);
  std::vector<std::tuple<std::string, std::string, std::string>> found;
  for (const ir::OptionText& row : ir::execution_table()) {
    if (row.keyword != "execution" || row.name == "whole_outputs") continue;
    const auto text = [&](const ir::Attrs& attrs) {
      const ir::Attr* said = attrs.find(row.name);
      return said ? ir::attr_text(*said) : row.value ? ir::attr_text(*row.value) : "none";
    };
    if (text(saved) != text(wanted)) found.emplace_back(row.name, text(saved), text(wanted));
  }
  return found;
}

}  // namespace

void bind_files(py::module_& m) {
  py::class_<File, std::shared_ptr<File>>(m, "ExecutableFile")
      .def(py::init([](const Text& path) { return std::make_shared<File>(path.value); }))
      .def("sections", &File::sections)
      .def("read",
           [](const File& file, const Text& name) { return py::bytes(file.read(name.value)); })
      .def("state", [](const File& file) { return frontend::saved_state(file); })
      .def("differences", [](const std::shared_ptr<File>& file,
                             const std::vector<Line>& lines) { return differences(file, lines); })
      .def(
          "load",
          [](const std::shared_ptr<File>& file, const NamedTensors& state, const Sources& outputs,
             std::vector<size_t> written_inputs, const py::dict& host, bool with_state) {
            return load(file, state, outputs, std::move(written_inputs), host, with_state);
          },
          py::arg("named_tensors"), py::arg("outputs"), py::arg("written_inputs"), py::arg("host"),
          py::arg("with_state"));
}

}  // namespace poptorch::bindings
