// What Python says of an execution, by the tables of ir/execution.hpp and session/session.hpp.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <tuple>
#include <vector>

#include "ir/execution.hpp"
#include "session/session.hpp"

namespace poptorch::bindings {

// (keyword, name, options): a line of the description.
using Line = std::tuple<std::string, std::string, pybind11::dict>;

// The description that the lines give, taken in turn. UserError as of ir::take_line().
void take_lines(ir::Execution& execution, const std::vector<Line>& lines);
// By name: threads, memory_limit, round_ipu_count.
compile::HostOptions host_options_of(const pybind11::dict& given);
// option_table(): the rows of both tables.
void bind_option_table(pybind11::module_& m);

}  // namespace poptorch::bindings
