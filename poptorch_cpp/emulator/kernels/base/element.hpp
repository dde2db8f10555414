// The types of elements that kernels of floats read from memory and write to it.
#pragma once

#include <cstdint>

#include "ir/type.hpp"

namespace poptorch::emulator {

// The type of an operand's elements in memory. Products convert halves to floats where they read
// them, and compute in floats.
enum class Element : uint8_t { kFloat, kHalf, kBfloat };
// Returns the elements of f16, bf16 or f32.
constexpr Element element_of(ir::DType dtype) {
  return dtype == ir::DType::kF16    ? Element::kHalf
         : dtype == ir::DType::kBF16 ? Element::kBfloat
                                     : Element::kFloat;
}
constexpr int64_t element_bytes(Element e) { return e == Element::kFloat ? 4 : 2; }

}  // namespace poptorch::emulator
