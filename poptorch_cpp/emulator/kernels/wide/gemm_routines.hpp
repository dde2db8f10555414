// The routines of gemm.hpp, compiled for one instruction set.
#pragma once

#include "emulator/kernels/gemm.hpp"
#include "emulator/kernels/isa.hpp"

namespace poptorch::emulator {

// All routines but `dots` sum in the same order on every instruction set.
constexpr int64_t kDepth = 256;  // of k at a time: a panel of b then fits in half of L1
constexpr int64_t kRowBlock = 96;
constexpr int64_t kRowsDepth = 64;  // of k at a time where b is not packed: its rows stay in L2

struct GemmRoutines {
  decltype(&gemm_packed) packed;
  decltype(&gemm_rows) rows;
  decltype(&gemm_dots) dots;
};

template <Isa isa>
const GemmRoutines& gemm_routines();
template <>
const GemmRoutines& gemm_routines<Isa::kAvx2>();
template <>
const GemmRoutines& gemm_routines<Isa::kAvx512>();

}  // namespace poptorch::emulator
