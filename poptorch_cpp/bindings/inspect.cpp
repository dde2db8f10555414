#include "bindings/inspect.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "account/inspection.hpp"
#include "bindings/watched.hpp"
#include "ir/execution.hpp"
#include "session/executable.hpp"
#include "session/form_lines.hpp"
#include "support/build_id.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using namespace pybind11::literals;

py::array array_of(const std::vector<int64_t>& numbers) {
  return py::array_t<int64_t>(static_cast<py::ssize_t>(numbers.size()), numbers.data());
}

py::dict table_dict(const account::Table& table) {
  py::dict made;
  for (size_t i = 0; i < table.names().size(); ++i) {
    made[table.names()[i]] = array_of(table.columns()[i]);
  }
  return made;
}

py::list ipu_list(const account::Inspection& found) {
  py::list ipus;
  for (const account::IpuMemory& ipu : found.ipus) {
    py::list remedies;
    for (const account::Remedy& remedy : ipu.remedies) {
      remedies.append(py::dict("saving"_a = remedy.saving, "text"_a = remedy.text));
    }
    ipus.append(py::dict("needed"_a = ipu.needed, "capacity"_a = ipu.capacity,
                         "arena"_a = ipu.arena, "first"_a = ipu.first, "last"_a = ipu.last,
                         "remedies"_a = remedies));
  }
  return ipus;
}

py::dict compile_dict(const compile::CompileRecord& record) {
  py::list passes;
  for (const compile::PassRecord& pass : record.passes) {
    passes.append(py::dict("name"_a = pass.name, "seconds"_a = pass.seconds,
                           "ops_before"_a = pass.ops_before, "ops_after"_a = pass.ops_after));
  }
  return py::dict("seconds"_a = record.seconds, "cached"_a = record.cached, "passes"_a = passes);
}

}  // namespace

py::dict form_lines_dict(const session::Executable& executable) {
  const auto forms = watched([&] { return session::form_lines(executable); });
  py::dict made;
  for (const session::FormLines& form : forms) {
    std::vector<int64_t> ids;
    py::list texts;
    for (const auto& [id, text] : form.lines) {
      ids.push_back(account::number_of(id));
      texts.append(text);
    }
    made[py::str(form.form)] = py::dict("op_id"_a = array_of(ids), "text"_a = texts);
  }
  return made;
}

py::dict inspect_dict(const session::Executable& executable) {
  const auto found = watched([&] { return account::inspect(executable.program()); });
  py::dict target("device"_a = found.device.name, "clock_hz"_a = found.device.clock_hz,
                  "tiles"_a = found.device.tiles, "bytes_per_ipu"_a = found.device.bytes_per_ipu,
                  "replicas"_a = found.replicas);
  py::dict memory("always"_a = table_dict(found.always),
                  "allocations"_a = table_dict(found.allocations), "ipus"_a = ipu_list(found));
  py::dict execution("lanes"_a = table_dict(found.lanes), "events"_a = table_dict(found.events),
                     "complete"_a = found.complete, "shown_cycles"_a = found.shown_cycles,
                     "total_cycles"_a = found.total_cycles);
  py::dict graph("modules"_a = table_dict(found.modules),
                 "crossings"_a = table_dict(found.crossings));
  py::dict made("library_version"_a = support::version(), "target"_a = target,
                "strings"_a = found.strings,
                "micro_batches_per_run"_a = found.micro_batches_per_run, "strategy"_a = "",
                "io_tiles"_a = 0, "instructions"_a = table_dict(found.instructions),
                "memory"_a = memory, "execution"_a = execution, "graph"_a = graph,
                "compile"_a = compile_dict(executable.compile_record()));
  if (executable.has_execution()) {
    made["strategy"] = executable.execution().strategy;
    made["io_tiles"] = executable.execution().io_tiles;
  }
  return made;
}

}  // namespace poptorch::bindings
