// Iteration over the taps of sliding windows on up to three spatial axes.
#pragma once

#include <array>
#include <cstdint>

#include "ir/attr.hpp"

namespace poptorch::reference {

// Spatial geometry, extended to three axes by leading ones of size one.
struct Windows {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1},
      padding{0, 0, 0}, dilation{1, 1, 1};

  // `x` and `y` are [n, c, spatial...].
  Windows(const ir::Shape& x, const ir::Shape& y, const ir::Ints& kernel_size,
          const ir::Ints& strides, const ir::Ints& pads, const ir::Ints& dilations) {
    const size_t spatial = x.size() - 2, lead = 3 - spatial;
    for (size_t i = 0; i < spatial; ++i) {
      in[lead + i] = x[i + 2];
      out[lead + i] = y[i + 2];
      kernel[lead + i] = kernel_size[i];
      stride[lead + i] = strides[i];
      padding[lead + i] = pads[i];
      dilation[lead + i] = dilations[i];
    }
  }
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Calls visit(place, tap, element) for every tap of every place that falls inside the input.
  template <typename Visit>
  void for_each(Visit visit) const {
    int64_t place = 0;
    for (int64_t a = 0; a < out[0]; ++a) {
      for (int64_t b = 0; b < out[1]; ++b) {
        for (int64_t c = 0; c < out[2]; ++c, ++place) taps_of(place, a, b, c, visit);
      }
    }
  }

 private:
  template <typename Visit>
  void taps_of(int64_t place, int64_t a, int64_t b, int64_t c, Visit& visit) const {
    int64_t tap = 0;
    for (int64_t i = 0; i < kernel[0]; ++i) {
      const int64_t x = a * stride[0] - padding[0] + i * dilation[0];
      for (int64_t j = 0; j < kernel[1]; ++j) {
        const int64_t y = b * stride[1] - padding[1] + j * dilation[1];
        for (int64_t k = 0; k < kernel[2]; ++k, ++tap) {
          const int64_t z = c * stride[2] - padding[2] + k * dilation[2];
          if (x < 0 || y < 0 || z < 0 || x >= in[0] || y >= in[1] || z >= in[2]) continue;
          visit(place, tap, (x * in[1] + y) * in[2] + z);
        }
      }
    }
  }
};

}  // namespace poptorch::reference
