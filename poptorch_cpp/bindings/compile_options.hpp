// Reads Python's description of an execution by the tables of ir/execution.hpp and
// session/session.hpp.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <tuple>
#include <vector>

#include "ir/execution.hpp"
#include "session/session.hpp"

namespace poptorch::bindings {

// A line of the description: (keyword, name, options).
using Line = std::tuple<std::string, std::string, pybind11::dict>;

// Applies the lines in order to the execution. Throws a UserError as ir::take_line() does.
void take_lines(ir::Execution& execution, const std::vector<Line>& lines);
// Returns the host options, given by name: threads, memory_limit, round_ipu_count.
compile::HostOptions host_options_of(const pybind11::dict& given);
// Binds option_table(), which returns the rows of both tables.
void bind_option_table(pybind11::module_& m);
// Binds Execution, which answers the questions of ir/execution.hpp that Python asks.
void bind_execution(pybind11::module_& m);

}  // namespace poptorch::bindings
