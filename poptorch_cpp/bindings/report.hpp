// The reports of session/ as Python dicts, for both modules.
#pragma once

#include <pybind11/pybind11.h>

#include "account/profile.hpp"
#include "session/schedule.hpp"
#include "session/session.hpp"

namespace poptorch::bindings {

// Returns a dict of the figures of account/report_rows.hpp and of their lists. An entry of "ipus"
// joins the memory and the work of an IPU.
pybind11::dict report_dict(const account::Report& report);
// Binds report_figures(), which returns the rows.
void bind_report_figures(pybind11::module_& m);
// Returns a dict whose keys are the fields of session::Schedule. "cells" and "transfers" have those
// of StageWork and Transfer, and "step".
pybind11::dict schedule_dict(const session::Schedule& schedule);
// Returns a dict whose keys are the fields of account::Profile and Segment.
pybind11::dict profile_dict(const account::Profile& profile);

}  // namespace poptorch::bindings
