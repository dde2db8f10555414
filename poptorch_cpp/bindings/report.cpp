#include "bindings/report.hpp"

#include <pybind11/stl.h>

#include <functional>

#include "account/report_rows.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using namespace pybind11::literals;

py::object figure_value(const std::vector<std::pair<std::string, double>>& shares) {
  py::dict made;
  for (const auto& [name, share] : shares) made[py::str(name)] = share;
  return made;
}

template <typename V>
py::object figure_value(const V& value) {
  return py::cast(value);
}

// Adds the figures of one part of a report to a dict.
template <typename T>
void add_figures(py::dict& into, const T& of) {
  for (const account::Figure<T>& row : account::figures_of(of)) {
    const py::str name(row.name.data(), row.name.size());
    std::visit([&](auto member) { into[name] = figure_value(std::invoke(member, of)); },
               row.member);
  }
}

template <typename T>
py::list list_of(const std::vector<T>& parts) {
  py::list made;
  for (const T& part : parts) {
    py::dict figures;
    add_figures(figures, part);
    made.append(figures);
  }
  return made;
}

}  // namespace

py::dict report_dict(const account::Report& report) {
  py::list ipus = list_of(report.ipus);
  for (size_t i = 0; i < report.work.size(); ++i) {
    py::dict ipu = ipus[i];
    add_figures(ipu, report.work[i]);
  }
  py::dict made("ipus"_a = ipus, "streams"_a = list_of(report.streams),
                "stages"_a = list_of(report.stages), "ops"_a = list_of(report.ops),
                "collectives"_a = list_of(report.collectives));
  add_figures(made, report);
  add_figures(made, report.measured);
  return made;
}

void bind_report_figures(py::module_& m) {
  m.def(
      "report_figures",
      [] {
        py::list rows;
        for (const account::FigureText& row : account::figure_texts()) {
          rows.append(py::make_tuple(row.list, row.name, row.type, row.unit, row.doc));
        }
        return rows;
      },
      "The figures of report(), as (list whose entries have it, name, type, unit, doc).");
}

py::dict schedule_dict(const session::Schedule& schedule) {
  py::list cells, transfers;
  for (size_t i = 0; i < schedule.work.size(); ++i) {
    const account::StageWork& work = schedule.work[i];
    cells.append(py::dict("ipu"_a = work.ipu, "stage"_a = work.stage, "phase"_a = work.phase,
                          "micro_batch"_a = work.micro_batch, "backward"_a = work.backward,
                          "cycles"_a = work.cycles, "step"_a = schedule.work_steps[i]));
  }
  for (size_t i = 0; i < schedule.transfers.size(); ++i) {
    const account::Transfer& transfer = schedule.transfers[i];
    transfers.append(
        py::dict("ipu"_a = transfer.ipu, "phase"_a = transfer.phase,
                 "micro_batch"_a = transfer.micro_batch, "kind"_a = session::word(transfer.kind),
                 "name"_a = transfer.name, "bytes"_a = transfer.bytes, "cycles"_a = transfer.cycles,
                 "io_tiles"_a = transfer.io_tiles, "step"_a = schedule.transfer_steps[i]));
  }
  return py::dict("ipus"_a = schedule.ipus, "idle_ipus"_a = schedule.idle_ipus,
                  "stages"_a = schedule.stages, "blocks"_a = schedule.blocks,
                  "phases"_a = schedule.phases, "steps"_a = schedule.steps, "cells"_a = cells,
                  "transfers"_a = transfers, "streams"_a = list_of(schedule.streams),
                  "io_tiles"_a = schedule.io_tiles, "bubbles"_a = schedule.bubbles,
                  "bottleneck"_a = schedule.bottleneck);
}

py::dict profile_dict(const account::Profile& profile) {
  py::list segments;
  for (const account::Segment& segment : profile.segments) {
    segments.append(
        py::dict("module"_a = segment.module, "forward_cycles"_a = segment.forward_cycles,
                 "backward_cycles"_a = segment.backward_cycles, "parameters"_a = segment.parameters,
                 "activation_bytes"_a = segment.activation_bytes,
                 "boundary_bytes"_a = segment.boundary_bytes,
                 "boundary_cycles"_a = segment.boundary_cycles));
  }
  return py::dict("segments"_a = segments, "states"_a = profile.states,
                  "capacity_bytes"_a = profile.capacity_bytes);
}

}  // namespace poptorch::bindings
