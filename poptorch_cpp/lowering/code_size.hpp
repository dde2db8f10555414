// Estimates the bytes of the code of a lowered program.
#pragma once

namespace poptorch::program {
struct Program;
}
namespace poptorch::target {
struct Device;
}

namespace poptorch::lowering {

// Sets the bytes of each IPU's code.
void estimate_code(program::Program& program, const target::Device& device);

}  // namespace poptorch::lowering
