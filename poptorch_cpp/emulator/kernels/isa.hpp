// The instruction sets that the files of wide/ are compiled for.
#pragma once

namespace poptorch::emulator {

enum class Isa { kAvx2, kAvx512 };

// The widest that this host can run and POPTORCH_MAX_CPU_ISA allows. UserError: it names none.
Isa host_isa();

}  // namespace poptorch::emulator
