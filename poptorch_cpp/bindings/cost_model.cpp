#include "bindings/cost_model.hpp"

#include <pybind11/stl.h>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "target/contraction.hpp"

namespace py = pybind11;

namespace poptorch::bindings {
namespace {

using namespace pybind11::literals;
using target::Constants;
using target::Contraction;

Constants with_overrides(const std::map<std::string, double>& overrides) {
  Constants made = target::constants();
  for (const auto& [name, value] : overrides) made.*target::constant_named(name) = value;
  return made;
}

py::dict terms_dict(const target::Terms& terms) {
  return py::dict("arithmetic"_a = terms.arithmetic, "vertex"_a = terms.vertex,
                  "exchange"_a = terms.exchange, "sync"_a = terms.sync);
}

Contraction contraction_of(const std::map<std::string, int64_t>& sizes, bool half) {
  static const std::map<std::string, int64_t Contraction::*> kSizes = {
      {"groups", &Contraction::groups},    {"batch", &Contraction::batch},
      {"height", &Contraction::height},    {"width", &Contraction::width},
      {"inner", &Contraction::inner},      {"outer", &Contraction::outer},
      {"taps_y", &Contraction::taps_y},    {"taps_x", &Contraction::taps_x},
      {"stride", &Contraction::stride},    {"tile_memory", &Contraction::tile_memory},
      {"io_tiles", &Contraction::io_tiles}};
  Contraction made{.half = half, .partial_bytes = half ? 2 : 4};
  for (const auto& [name, size] : sizes) {
    const auto known = kSizes.find(name);
    if (known == kSizes.end() || size < 1) {
      throw support::UserError(
          support::str("[target] a product cannot have ", size, " ", name,
                       ". Its sizes are groups, batch, height, width, inner, outer, taps_y, taps_x "
                       "stride, tile_memory and io_tiles, and at least 1."));
    }
    made.*known->second = size;
  }
  return made;
}

}  // namespace

void bind_cost_model(py::module_& m) {
  m.def(
      "cost_constants",
      [] {
        py::list rows;
        for (const target::ConstantRow& row : target::constant_rows()) {
          rows.append(py::make_tuple(row.name, row.value, row.unit, row.source, row.fitted));
        }
        return rows;
      },
      "The constants of the cost model, as (name, value, unit, source, whether it is fitted).");
  m.def(
      "replace_constant",
      [](const std::string& name, double value) {
        target::replace_constant(name, value);
        target::forget_plans();
      },
      "name"_a, "value"_a, "Replaces a constant of the cost model in this process.");
  m.def(
      "contraction_cost",
      [](const std::string& device, const std::map<std::string, int64_t>& sizes, bool half,
         const std::map<std::string, double>& overrides) {
        const target::ContractionPlan plan = target::plan_contraction(
            target::find_device(device), contraction_of(sizes, half), with_overrides(overrides));
        py::dict made = terms_dict(plan.terms);
        made["rounds"] = plan.rounds;
        made["tile_bytes"] = plan.tile_bytes;
        made["parts"] = py::make_tuple(plan.groups, plan.rows, plan.inner, plan.outer);
        return made;
      },
      "device"_a, "sizes"_a, "half"_a, "overrides"_a = py::dict(),
      "The terms of the cycles of a matrix product or convolution, and the parts into which its "
      "groups, rows, inner and outer channels are divided. `overrides` replaces constants.");
  m.def(
      "exchange_cycles",
      [](const std::string& device, double bytes, bool paired) {
        return target::exchange_cycles(target::find_device(device), bytes, paired);
      },
      "device"_a, "bytes"_a, "paired"_a = false,
      "The cycles in which a tile receives `bytes`, with the sync before it.");
  m.def(
      "link_cycles",
      [](const std::string& device, double bytes) {
        return target::link_cycles(target::find_device(device), bytes);
      },
      "device"_a, "bytes"_a, "The cycles of sending `bytes` over all IPU-Links of an IPU.");
  m.def(
      "pair_cycles",
      [](const std::string& device, double bytes) {
        return target::pair_cycles(target::find_device(device), bytes);
      },
      "device"_a, "bytes"_a, "The cycles of sending `bytes` to one other IPU over IPU-Links.");
  m.def(
      "device_figures",
      [](const std::string& name) {
        const target::Device& device = target::find_device(name);
        return py::dict("tiles"_a = device.tiles, "clock"_a = device.clock,
                        "title"_a = device.title);
      },
      "device"_a, "Figures of a device profile.");
}

}  // namespace poptorch::bindings
