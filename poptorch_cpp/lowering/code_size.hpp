// Estimates the bytes of the code of a lowered program.
#pragma once

namespace poptorch::program {
struct Program;
}
namespace poptorch::target {
struct Device;
}

namespace poptorch::lowering {

// Sets the bytes of each IPU's code. `outlines` says that equal work shares its code.
void estimate_code(program::Program& program, const target::Device& device, bool outlines);

}  // namespace poptorch::lowering
