// Decides which instruction set's kernels run. This file is compiled for every processor of the
// architecture, because it runs before the host has been checked.
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <string>

#include "emulator/kernels/check_host.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

#define POPTORCH_DECLARE(set) \
  namespace set {             \
  KernelSet kernels_of_set(); \
  }
POPTORCH_SETS(POPTORCH_DECLARE)
#undef POPTORCH_DECLARE
#ifdef POPTORCH_PAIRS
namespace AVX512_BF16 {
extern const GemmRoutines kGemmRoutines;
}
namespace AVX512_AMX {
extern const GemmRoutines kGemmRoutines;
}
#endif

namespace {

#if defined(__x86_64__)
// clang 16's __builtin_cpu_supports does not know this feature.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

// Linux lets a process use the tile registers once it has asked for them.
bool may_use_tiles() {
  constexpr unsigned kTile = 1u << 24, kTileBfloat = 1u << 22;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTile) != 0 && (d & kTileBfloat) != 0 &&
         syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}
#endif

// Returns the features that a set needs and the host lacks.
std::vector<std::string> missing_features(std::string_view set) {
  std::vector<std::string> missing;
#if defined(__x86_64__)
#define POPTORCH_NEEDS(feature) \
  if (!__builtin_cpu_supports(feature)) missing.emplace_back(feature)
  POPTORCH_NEEDS("sse4.2");
  if (set == "SSE4") return missing;
  POPTORCH_NEEDS("avx2");
  POPTORCH_NEEDS("fma");
  if (!has_f16c()) missing.emplace_back("f16c");
  if (set == "AVX2") return missing;
  POPTORCH_NEEDS("avx512f");
  POPTORCH_NEEDS("avx512bw");
  POPTORCH_NEEDS("avx512dq");
  POPTORCH_NEEDS("avx512vl");
  if (set == "AVX512") return missing;
  POPTORCH_NEEDS("avx512bf16");
  if (set == "AVX512_BF16") return missing;
  if (!may_use_tiles()) missing.emplace_back("amx-bf16");
#undef POPTORCH_NEEDS
#else
  (void)set;
#endif
  return missing;
}

// A set of this build: its name, and the function that returns its table.
struct Built {
  std::string_view name;
  KernelSet (*make)();
};
#define POPTORCH_ROW(set) Built{#set, set::kernels_of_set},
#ifdef POPTORCH_PAIRS
// The set AVX512 with products of pairs, or of matrices as well.
KernelSet with_pairs() {
  KernelSet set = AVX512::kernels_of_set();
  set.name = "AVX512_BF16";
  set.gemm = AVX512_BF16::kGemmRoutines;
  return set;
}
KernelSet with_matrices() {
  KernelSet set = AVX512::kernels_of_set();
  set.name = "AVX512_AMX";
  set.gemm = AVX512_AMX::kGemmRoutines;
  return set;
}
constexpr Built kBuilt[] = {POPTORCH_SETS(POPTORCH_ROW) Built{"AVX512_BF16", with_pairs},
                            Built{"AVX512_AMX", with_matrices}};
#else
constexpr Built kBuilt[] = {POPTORCH_SETS(POPTORCH_ROW)};
#endif
#undef POPTORCH_ROW

auto width(std::string_view name) {
  return std::ranges::find(support::kInstructionSets, name) - support::kInstructionSets;
}

const KernelSet& widest_allowed() {
  const auto sets = host_kernel_sets();
  const std::string most = support::environment_text("POPTORCH_MAX_CPU_ISA", sets.back()->name);
  const KernelSet* widest = nullptr;
  for (const KernelSet* set : sets) {
    if (width(set->name) <= width(most)) widest = set;
  }
  if (widest) return *widest;
  const std::string_view least = sets.front()->name;
  const std::string other =
      least == "NEON" ? "" : support::str(", or build with -DPOPTORCH_SETS=", most);
  throw support::UserError(support::str("[kernels] POPTORCH_MAX_CPU_ISA is ", most,
                                        ", but this build's kernels need at least ", least,
                                        ". Unset the variable", other, "."));
}

}  // namespace

void check_host() {
  const std::vector<std::string> missing = missing_features(kBuilt[0].name);
  if (missing.empty()) return;
  throw support::UnsupportedError(
      support::str("[kernels] this build needs a processor with ", kBuilt[0].name,
                   "; this one lacks ", support::join(missing, ", "),
                   ". Build poptorch on this machine, or with -DPOPTORCH_SETS=SSE4."));
}

std::span<const KernelSet* const> host_kernel_sets() {
  static const std::vector<KernelSet> made = [] {
    check_host();
    std::vector<KernelSet> sets;
    for (const Built& built : kBuilt) {
      if (missing_features(built.name).empty()) sets.push_back(built.make());
    }
    return sets;
  }();
  static const std::vector<const KernelSet*> pointers = [] {
    std::vector<const KernelSet*> sets;
    for (const KernelSet& set : made) sets.push_back(&set);
    return sets;
  }();
  return pointers;
}

const KernelSet& kernel_set() {
  static const KernelSet& set = widest_allowed();
  return set;
}

}  // namespace poptorch::emulator
