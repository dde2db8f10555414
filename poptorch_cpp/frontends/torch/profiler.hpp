// Shows regions of the core (support/regions.hpp) to torch's profilers.
#pragma once

namespace poptorch::frontend {

// From here on. May be called any number of times.
void show_regions_to_profilers();

}  // namespace poptorch::frontend
