// The geometry of a convolution in channels-last memory, always with three spatial dimensions.
#pragma once

#include <algorithm>
#include <array>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

struct ConvShape {
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // of all groups
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> strides{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return taps() * group_in(); }  // of one output's sum
  int64_t out_pixels() const { return batch * out[0] * out[1] * out[2]; }
  int64_t in_pixels() const { return batch * in[0] * in[1] * in[2]; }
  double flops() const {
    return 2.0 * static_cast<double>(out_pixels() * out_channels) * static_cast<double>(depth());
  }
  bool pointwise() const {
    return taps() == 1 && strides == std::array<int64_t, 3>{1, 1, 1} &&
           padding == std::array<int64_t, 3>{0, 0, 0};
  }
  bool depthwise() const { return groups > 1 && group_in() == 1 && group_out() == 1; }
  // Returns whether the loops of depthwise convolutions compute it: vectors of `lanes` channels
  // have whole groups, or groups have whole vectors, and the weights of all channels stay in the
  // cache.
  bool by_channels(int64_t lanes) const {
    constexpr int64_t kMostWeights = 80 << 10;  // elements
    const int64_t width = group_in();
    const bool parts = lanes % width == 0 && out_channels % lanes == 0 && width <= 8;
    const bool whole = width % lanes == 0 && width % 8 == 0;
    return depthwise() || (groups > 1 && group_out() == width && (parts || whole) &&
                           out_channels * depth() <= kMostWeights);
  }

  // Reads the geometry from the shapes of x [n, c, spatial...], w [out, c / groups, kernel...] and
  // y.
  static ConvShape of(const KernelRequest& request, const ir::Shape& x, const ir::Shape& w,
                      const ir::Shape& y);
};

// The patches that output pixels of a group sum over, in the order (kernel position, channel).
// Functions take elements [begin, end) of the patches of some pixels, one patch after the other.
class Patches {
 public:
  explicit Patches(const ConvShape& shape);
  // Copies the elements; padding reads as zeros.
  void read(const float* x, Range pixels, int64_t group, int64_t begin, int64_t end,
            float* out) const;
  void read(const uint16_t* x, Range pixels, int64_t group, int64_t begin, int64_t end,
            uint16_t* out) const;
  // Adds the elements to the places that read() takes them from; padding is dropped.
  void add(float* x, Range pixels, int64_t group, int64_t begin, int64_t end,
           const float* in) const;

 private:
  struct Pixel {
    int64_t image, d, h, w;
  };
  // The run of elements of a patch that is read first, and its position in the kernel.
  struct Start {
    int64_t element, kd, kh, kw;
  };
  template <typename Visit>
  void walk(Range pixels, int64_t group, int64_t begin, int64_t end, Visit visit) const;
  template <typename T>
  void read_as(const T* x, Range pixels, int64_t group, int64_t begin, int64_t end, T* out) const;
  template <typename Visit>
  void walk_one(const Pixel& pixel, Start start, int64_t group, int64_t begin, int64_t end,
                Visit visit) const;

  ConvShape s_;
  int64_t run_;          // patch elements that follow each other in a row of x
  int64_t runs_in_row_;  // of a kernel
  Range inner_{0, 0};    // columns of the result whose patches lie in columns of the input
};

}  // namespace poptorch::emulator
