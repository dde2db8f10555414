// The loops of depthwise convolutions, and of those with narrow groups, in every instruction set of
// the host.
#include <cmath>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "gtest/gtest.h"
#include "random_floats.hpp"

namespace poptorch::emulator {
namespace {

TEST(DepthwiseSums, MultiplyEachTap) {
  constexpr int kTaps = 9;
  for (const KernelSet* set : host_kernel_sets()) {
    for (int64_t channels : {1, 7, 32, 37, 48, 96}) {
      const Floats x = random_floats(2 * kTaps * channels, 1);
      const Floats w = random_floats(kTaps * channels, 2), bias = random_floats(channels, 3);
      int64_t from[kTaps], with[kTaps];
      for (int t = 0; t < kTaps; ++t) from[t] = t * channels, with[t] = (kTaps - 1 - t) * channels;
      const DepthwiseRun run{.x = x.data(),
                             .w = w.data(),
                             .bias = bias.data(),
                             .from = from,
                             .with = with,
                             .taps = kTaps,
                             .channels = channels,
                             .step = channels};
      for (int64_t pixels = 1; pixels <= 9; ++pixels) {
        Floats y(pixels * channels), alone(channels);
        set->depthwise_pixels(run, pixels, y.data(), nullptr);
        for (int64_t i = 0; i < pixels * channels; ++i) {
          const int64_t c = i % channels, first = i - c;
          double sum = bias[c];
          for (int t = 0; t < kTaps; ++t) sum += double{x[first + from[t] + c]} * w[with[t] + c];
          ASSERT_NEAR(y[i], sum, 2e-6) << set->name << " " << channels << " " << pixels;
        }
        DepthwiseRun last = run;
        last.x += (pixels - 1) * channels;
        set->depthwise_pixels(last, 1, alone.data(), nullptr);
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), y.end() - channels))
            << "the bits of a pixel depend on its neighbours: " << set->name << " " << channels;
      }
    }
  }
}

TEST(DepthwiseSums, AddTheChannelsOfNarrowGroups) {
  constexpr int kTaps = 3, kPixels = 8;
  for (const KernelSet* set : host_kernel_sets()) {
    for (const auto& [width, channels] :
         {std::pair{2, 48}, std::pair{4, 16}, std::pair{4, 80}, std::pair{8, 48}, std::pair{16, 32},
          std::pair{16, 48}, std::pair{32, 96}}) {
      if (width > 8 && width % set->lanes != 0) continue;
      const int64_t rows = kTaps * width;
      const Floats x = random_floats((kPixels + kTaps) * channels, 1);
      const Floats w = random_floats(rows * channels, 2), dy = random_floats(kPixels * channels, 3);
      int64_t from[kTaps], with[kTaps];
      for (int t = 0; t < kTaps; ++t) from[t] = t * channels, with[t] = t * width * channels;
      const DepthwiseRun run{.x = x.data(),
                             .w = w.data(),
                             .bias = nullptr,
                             .from = from,
                             .with = with,
                             .taps = kTaps,
                             .channels = channels,
                             .step = channels,
                             .width = width};
      Floats y(kPixels * channels), alone(channels), products(width * channels, 0.5f);
      set->depthwise_pixels(run, kPixels, y.data(), nullptr);
      set->add_row_products(x.data(), channels, dy.data(), channels, kPixels, channels, width,
                            products.data());
      for (int64_t i = 0; i < kPixels * channels; ++i) {
        const int64_t c = i % channels, group = c / width * width;
        double sum = 0;
        for (int64_t k = 0; k < rows; ++k) {
          const int64_t at = i - c + from[k / width] + group + k % width;
          sum += double{x[at]} * w[k * channels + c];
        }
        ASSERT_NEAR(y[i], sum, 2e-5) << set->name << " " << width << " " << channels;
      }
      for (int64_t i = 0; i < width * channels; ++i) {
        const int64_t c = i % channels, from_channel = c / width * width + i / channels;
        double sum = 0.5;
        for (int64_t p = 0; p < kPixels; ++p) {
          sum += double{x[p * channels + from_channel]} * dy[p * channels + c];
        }
        ASSERT_NEAR(products[i], sum, 2e-5) << set->name << " " << width << " " << channels;
      }
      DepthwiseRun last = run;
      last.x += (kPixels - 1) * channels;
      set->depthwise_pixels(last, 1, alone.data(), nullptr);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), y.end() - channels))
          << "the bits of a pixel depend on its neighbours: " << set->name << " " << width;
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
