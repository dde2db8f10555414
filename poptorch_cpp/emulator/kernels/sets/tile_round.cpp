// Random rounding of floats in registers to the values of half types, as steps of tile programs.
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/round_numbered.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::DType;

// `Y` is float for a register, and uint16_t for halves in memory.
template <typename To, typename Y>
void round_tile(const MicroArgs& a, int64_t n) {
  round_numbered<To>(a, a.in<float>(0), a.out<Y>(), 0, n);
}

// The source stays a register of floats; the result is held as halves.
constexpr HalfForms kStoredForms = {
    {{{round_tile<ToHalf, uint16_t>}, {}}, {{round_tile<ToBfloat, uint16_t>}, {}}}};

bool is_to_half(const MicroQuery& q) { return q.results[0] == DType::kF16; }
bool is_to_bfloat(const MicroQuery& q) { return q.results[0] == DType::kBF16; }

}  // namespace

MicroFn rounding_at_random(DType dtype) {
  return dtype == DType::kF16 ? round_tile<ToHalf, float> : round_tile<ToBfloat, float>;
}

void add_rounding_rows(std::vector<MicroRow>& rows) {
  using enum RegisterClass;
  rows.push_back({"stochastic_cast",
                  kF32,
                  kF32,
                  round_tile<ToHalf, float>,
                  nullptr,
                  is_to_half,
                  {},
                  &kStoredForms});
  rows.push_back({"stochastic_cast",
                  kF32,
                  kF32,
                  round_tile<ToBfloat, float>,
                  nullptr,
                  is_to_bfloat,
                  {},
                  &kStoredForms});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
