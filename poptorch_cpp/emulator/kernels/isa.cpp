#include "emulator/kernels/isa.hpp"

#include <cstdlib>
#include <string_view>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

Isa chosen() {
  const char* given = std::getenv("POPTORCH_MAX_CPU_ISA");
  const std::string_view most = given ? given : "AVX512";
  if (most != "AVX512" && most != "AVX2") {
    throw support::UserError(
        support::str("[kernels] POPTORCH_MAX_CPU_ISA is '", most, "'. Set it to AVX512 or AVX2."));
  }
  return most == "AVX512" && has_avx512() ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace

Isa host_isa() {
  static const Isa isa = chosen();
  return isa;
}

}  // namespace poptorch::emulator
