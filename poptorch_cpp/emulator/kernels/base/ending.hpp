// A chain that a kernel applies to its sums while they are in registers, before it stores them:
// limit(sum · scale + shift + added). The result has the bits of the same chain on stored sums.
#pragma once

#include <cmath>
#include <cstdint>

#include "emulator/kernels/base/element.hpp"

namespace poptorch::emulator {

// The form of a tile program that is an ending. Numbers are those of its inputs; negative: absent.
struct EndingForm {
  int scale = -1, shift = -1;  // a number for each column
  int added = -1;              // a number for each element
  float low = -INFINITY, high = INFINITY;
  Element element = Element::kFloat;  // of the sums, the added numbers and the result
};

// An ending of the block that begins at these addresses, with added numbers and a result of T. Rows
// of `added` and `to` are row_step elements apart.
template <typename T, Element type>
struct EndingOf {
  const float *scale = nullptr, *shift = nullptr;
  const T* added = nullptr;
  float low = -INFINITY, high = INFINITY;
  T* to = nullptr;
  int64_t row_step = 0;
  Element element = type;  // of T

  // Returns the ending of the block that begins at element (i, j) of this one.
  EndingOf from(int64_t i, int64_t j) const {
    EndingOf part = *this;
    if (scale) part.scale += j, part.shift += j;
    if (added) part.added += i * row_step + j;
    part.to += i * row_step + j;
    return part;
  }
};
using Ending = EndingOf<float, Element::kFloat>;
// An ending on halves of either type. Sums are rounded first, and so is the result of each part.
using HalfEnding = EndingOf<uint16_t, Element::kHalf>;

}  // namespace poptorch::emulator
