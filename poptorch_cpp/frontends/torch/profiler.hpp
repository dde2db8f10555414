// Shows regions of the core (support/regions.hpp) to torch's profilers.
#pragma once

namespace poptorch::frontend {

// Takes effect for the rest of the process. Idempotent.
void show_regions_to_profilers();

}  // namespace poptorch::frontend
