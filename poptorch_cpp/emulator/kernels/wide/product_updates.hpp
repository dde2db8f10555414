// Updates that take their gradient from the registers of the product that computes it, compiled for
// one instruction set.
#pragma once

#include "emulator/kernels/isa.hpp"
#include "emulator/kernels/tile_ops.hpp"

namespace poptorch::emulator {

struct ProductUpdates {
  using Fn = decltype(ProductForm::run);
  Fn sgd, adam, adamw, accumulate;
  Fn rounded_adam[2][2][2];  // by AdamVector: m is rounded to half, the ratio is, m is held so
};

template <Isa isa>
const ProductUpdates& product_updates();
template <>
const ProductUpdates& product_updates<Isa::kAvx2>();
template <>
const ProductUpdates& product_updates<Isa::kAvx512>();

inline const ProductUpdates& product_updates() {
  return host_isa() == Isa::kAvx512 ? product_updates<Isa::kAvx512>()
                                    : product_updates<Isa::kAvx2>();
}

}  // namespace poptorch::emulator
