#include "emulator/kernels/isa.hpp"

namespace poptorch::emulator {

Isa host_isa() {
  static const bool wide = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace poptorch::emulator
