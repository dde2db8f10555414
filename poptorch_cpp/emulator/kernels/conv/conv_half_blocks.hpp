// How convolutions of halves are divided: into groups, blocks of pixels and parts of the channels.
#pragma once

#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/conv/conv_halves.hpp"

namespace poptorch::emulator {

// Packs the weights of each group, which stay halves, and computes blocks of the result.
class ConvOfHalves : public BoundKernel {
 public:
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? s_.groups : pixel_parts_ * col_parts_ * s_.groups);
  }
  int64_t scratch_bytes() const override { return own_bytes_ + end_.scratch_bytes(); }
  int64_t workspace_bytes() const override { return 2 * group_elements() * s_.groups; }
  std::vector<int> prepared_operands() const override { return {1}; }
  int64_t estimated_ns() const override { return ns_; }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) {
      return pack(input_of<uint16_t>(args, 1) + task * weights_.group_stride,
                  packed_of(args, task));
    }
    const int64_t col_part = task % col_parts_, rest = task / col_parts_;
    const int64_t group = rest % s_.groups, pixel_part = rest / s_.groups;
    const Range pixels = part_of(s_.out_pixels(), pixel_parts_, pixel_part);
    const Range cols = part_of(s_.group_out(), col_parts_, col_part, kPanel);
    for (int64_t p = pixels.begin; p < pixels.end; p += block_pixels_) {
      block(args, group, {p, std::min(p + block_pixels_, pixels.end)}, cols);
    }
  }

 protected:
  ConvOfHalves(const KernelRequest& request, const ConvShape& shape, const WeightView& weights)
      : s_(shape),
        reads_(shape),
        weights_(weights),
        end_(request),
        bias_(request.inputs.size() > 2 && request.inputs[2]),
        load_(load_fn(request.inputs[0]->dtype)) {}

  // Chooses blocks of so many pixels, and tasks of at least `task_pixels`.
  void divide(int64_t block_pixels, int64_t task_pixels) {
    block_pixels_ = block_pixels;
    const auto ns = static_cast<int64_t>(s_.flops() / 60);
    ns_ = ns + end_.estimated_ns(s_.out_pixels() * s_.out_channels);
    const int64_t wanted = parts_for(ns, 48);
    pixel_parts_ = std::clamp<int64_t>(s_.out_pixels() / task_pixels, 1, wanted);
    col_parts_ =
        std::clamp<int64_t>(s_.group_out() / 128, 1, divide_up(wanted, pixel_parts_ * s_.groups));
  }

  // Packs the weights of a group.
  virtual void pack(const uint16_t* weights, uint16_t* packed) const = 0;
  // Computes the result's channels `cols` of a group at the pixels, of which there are at most
  // block_pixels_.
  virtual void block(const KernelArgs& args, int64_t group, Range pixels, Range cols) const = 0;

  int64_t depth() const { return s_.depth(); }
  bool has_bias() const { return bias_; }
  int64_t block_pixels() const { return block_pixels_; }
  uint16_t* packed_of(const KernelArgs& args, int64_t group) const {
    return reinterpret_cast<uint16_t*>(args.workspace) + group * group_elements();
  }
  int64_t channel(int64_t group, Range cols) const { return group * s_.group_out() + cols.begin; }
  // Returns place for `bytes` in the scratch of a task.
  int64_t take(int64_t bytes) {
    return std::exchange(own_bytes_, own_bytes_ + round_up(bytes, 64));
  }

  void widen(const uint16_t* from, float* to, int64_t n) const {
    MicroArgs args;
    args.src[0] = from;
    args.dst[0] = to;
    load_(args, n);
  }
  // Returns `count` biases as floats, which it stores at `at` in the scratch; nullptr without any.
  const float* bias(const KernelArgs& args, int64_t channel, int64_t count, int64_t at) const {
    if (!bias_) return nullptr;
    auto* held = reinterpret_cast<float*>(args.scratch + at);
    widen(input_of<uint16_t>(args, 2) + channel, held, count);
    return held;
  }
  HalfEnding ending(const KernelArgs& args, int64_t group, Range pixels, Range cols) const {
    return end_.ending(args, pixels.begin, channel(group, cols), s_.out_channels);
  }
  // Runs the chain on the block, unless it is an ending.
  void run_chain(const KernelArgs& args, int64_t group, Range pixels, Range cols) const {
    if (!end_.has_chain()) return;
    end_.run_chain(args,
                   {.first = pixels.begin * s_.out_channels + channel(group, cols),
                    .rows = pixels.size(),
                    .row_step = s_.out_channels,
                    .cols = cols.size()},
                   args.scratch + own_bytes_);
  }

  ConvShape s_;
  Patches reads_;
  WeightView weights_;

 private:
  int64_t group_elements() const { return packed_floats(depth(), s_.group_out()); }

  HalfEnd end_;
  bool bias_;
  MicroFn load_;
  int64_t ns_ = 0, pixel_parts_ = 1, col_parts_ = 1, block_pixels_ = 1, own_bytes_ = 0;
};

}  // namespace poptorch::emulator
