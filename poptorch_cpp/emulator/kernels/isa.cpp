#include "emulator/kernels/isa.hpp"

#include <string>

#include "support/environment.hpp"

namespace poptorch::emulator {
namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

Isa chosen() {
  const std::string most = support::environment_text("POPTORCH_MAX_CPU_ISA", "AVX512");
  return most == "AVX512" && has_avx512() ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace

Isa host_isa() {
  static const Isa isa = chosen();
  return isa;
}

}  // namespace poptorch::emulator
