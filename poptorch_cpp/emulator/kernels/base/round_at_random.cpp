#include "emulator/kernels/base/round_at_random.hpp"

#include <bit>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {

using reference::Philox;

Philox philox_of(const RandomKey& key, bool same_in_replicas) {
  RandomKey own = key;
  if (same_in_replicas) own.replica = 0;
  return Philox(own);
}

void draw(const Philox& philox, uint64_t first, uint32_t* numbers) {
  for (uint64_t i = 0; i < kDrawn; i += 4) {
    const Philox::Block block = philox.block((first + i) / 4);
    std::copy(block.begin(), block.end(), numbers + i);
  }
}

namespace {

uint16_t to_half(float x, uint32_t word) {
  constexpr uint32_t kLeastNormal = 0x38800000, kOverflow = 0x47800000;  // 2^-14, 65536
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  if (magnitude < kLeastNormal || magnitude >= kOverflow) {
    return ir::to_half_bits(reference::rounded_at_random(x, word, 11, -14));
  }
  // Thirteen bits are dropped. The result is rounded up when they, as a fraction, exceed the word.
  const uint32_t up = (word >> 19) < (magnitude & 0x1fff);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((magnitude >> 13) - (112 << 10) + up));
}

uint16_t to_bfloat(float x, uint32_t word) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return ir::to_bfloat16_bits(x);
  // The low bits of infinity are zero, so it stays infinite.
  return static_cast<uint16_t>((bits >> 16) + ((word >> 16) < (bits & 0xffff)));
}

class UpdateAtRandom final : public BoundKernel {
 public:
  UpdateAtRandom(std::unique_ptr<BoundKernel> update, std::vector<RoundedResult> results,
                 int buffers, int64_t elements)
      : update_(std::move(update)),
        results_(std::move(results)),
        buffers_(buffers),
        elements_(elements),
        parts_(parts_for(2 * elements, divide_up(elements, kDrawn))) {}
  int phases() const override { return update_->phases() + 1; }
  int tasks(int phase) const override {
    return phase < update_->phases() ? update_->tasks(phase)
                                     : static_cast<int>(parts_ * std::ssize(results_));
  }
  int64_t scratch_bytes() const override { return update_->scratch_bytes(); }
  int64_t workspace_bytes() const override { return stride() * std::ssize(results_); }
  int64_t estimated_ns() const override {
    return update_->estimated_ns() + 2 * elements_ * std::ssize(results_);
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == update_->phases()) return round(args, task / parts_, task % parts_);
    std::byte* buffers[kMaxKernelBuffers];
    std::copy_n(args.buffers, buffers_, buffers);
    for (int64_t i = 0; i < std::ssize(results_); ++i) {
      buffers[buffers_ + i] = args.workspace + i * stride();
    }
    KernelArgs own = args;
    own.buffers = buffers;
    update_->run(own, phase, task);
  }

 private:
  int64_t stride() const { return round_up(4 * elements_, 64); }

  void round(const KernelArgs& args, int64_t index, int64_t part) const {
    const RoundedResult& result = results_[index];
    const auto* x = reinterpret_cast<const float*>(args.workspace + index * stride());
    auto* y = buffer_of<uint16_t>(args, result.to);
    const Philox philox = philox_of(args.random, true);
    const Range range = part_of(elements_, parts_, part, kDrawn);
    for (int64_t i = range.begin; i < range.end; i += kDrawn) {
      uint32_t numbers[kDrawn];
      draw(philox, (static_cast<uint64_t>(result.operand) << 40) + static_cast<uint64_t>(i),
           numbers);
      round_at_random(result.dtype, x + i, numbers, std::min(kDrawn, range.end - i), y + i);
    }
  }

  std::unique_ptr<BoundKernel> update_;
  std::vector<RoundedResult> results_;
  int buffers_;
  int64_t elements_, parts_;
};

}  // namespace

void round_at_random(ir::DType dtype, const float* x, const uint32_t* numbers, int64_t count,
                     uint16_t* y) {
  const auto round = dtype == ir::DType::kF16 ? to_half : to_bfloat;
  for (int64_t i = 0; i < count; ++i) y[i] = round(x[i], numbers[i]);
}

std::unique_ptr<BoundKernel> make_update_at_random(std::unique_ptr<BoundKernel> update,
                                                   std::vector<RoundedResult> results, int buffers,
                                                   int64_t elements) {
  return std::make_unique<UpdateAtRandom>(std::move(update), std::move(results), buffers, elements);
}

}  // namespace poptorch::emulator
