// The instruction sets that the files of wide/ are compiled for.
#pragma once

namespace poptorch::emulator {

enum class Isa { kAvx2, kAvx512 };

// The widest that this host can run and POPTORCH_MAX_CPU_ISA allows. UserError: it names none.
Isa host_isa();

// What `f`, a template by Isa, gives for the host's: a new instruction set is a case here.
template <typename F>
decltype(auto) on_host_isa(F f) {
  return host_isa() == Isa::kAvx512 ? f.template operator()<Isa::kAvx512>()
                                    : f.template operator()<Isa::kAvx2>();
}

}  // namespace poptorch::emulator
