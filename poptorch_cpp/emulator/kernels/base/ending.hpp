// A chain that a kernel applies to its sums while they are in registers, before it stores them:
// limit(sum · scale + shift + added). The result has the bits of the same chain on stored sums.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "emulator/kernels/base/element.hpp"

namespace poptorch::emulator {

// The form of a tile program that is an ending. Numbers are those of its inputs; negative: absent.
struct EndingForm {
  int scale = -1, shift = -1;  // a number for each column
  int added = -1;              // a number for each element
  float low = -INFINITY, high = INFINITY;
  Element element = Element::kFloat;  // of the sums, the added numbers and the result
  bool at_random = false;             // sums are floats; all parts round at random to `element`
};

// The random bits of an ending at random. Element (i, j) of the result draws those of a number: (i
// / image * columns + j) * image + i % image. `image` is 1, unless rows are the pixels of images
// that are numbered channel by channel.
struct EndingRounding {
  enum Part { kSum, kScaled, kAdded };
  bool at_random = false;
  uint32_t keys[3][2] = {};  // of the parts
  int64_t image = 1;
  int64_t row = 0, column = 0;  // of the block's first element

  uint32_t number(int64_t i, int64_t j, int64_t columns) const {
    const int64_t first = (row + i) / image * columns + column + j;
    return static_cast<uint32_t>(first * image + (row + i) % image);
  }
  EndingRounding from(int64_t i, int64_t j) const {
    EndingRounding part = *this;
    part.row += i, part.column += j;
    return part;
  }
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
// An ending on halves of either type. Sums are rounded first, and so is the result of each part: to
// nearest, or at random.
struct HalfEnding : EndingOf<uint16_t, Element::kHalf> {
  EndingRounding rounding = {};

  HalfEnding from(int64_t i, int64_t j) const {
    return {EndingOf::from(i, j), rounding.at_random ? rounding.from(i, j) : rounding};
  }
};

// Returns the ending with these buffers: those of the inputs, and then the result's.
template <typename E>
E ending_in(const EndingForm& form, std::byte* const* buffers, int inputs) {
  auto at = [&]<typename Pointer>(Pointer& pointer, int number) {
    pointer = number < 0 ? nullptr : reinterpret_cast<Pointer>(buffers[number]);
  };
  E whole;
  at(whole.scale, form.scale), at(whole.shift, form.shift), at(whole.added, form.added);
  at(whole.to, inputs);
  whole.low = form.low, whole.high = form.high;
  return whole;
}

}  // namespace poptorch::emulator
