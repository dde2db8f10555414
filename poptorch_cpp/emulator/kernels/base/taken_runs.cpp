#include "emulator/kernels/base/taken_runs.hpp"

#include <algorithm>

#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

class TakenRuns final : public BoundKernel {
 public:
  TakenRuns(RowsPart chain, RowsPart reader, int64_t elements, int64_t element_bytes)
      : chain_(std::move(chain)),
        reader_(std::move(reader)),
        elements_(elements),
        element_bytes_(element_bytes),
        held_bytes_(round_up(reader_.kernel->elements_at_once() * element_bytes, 64)),
        chain_bytes_(round_up(chain_.kernel->scratch_bytes(), 64)) {}
  int phases() const override { return reader_.kernel->phases(); }
  int tasks(int phase) const override { return reader_.kernel->tasks(phase); }
  int64_t scratch_bytes() const override {
    return held_bytes_ + chain_bytes_ + reader_.kernel->scratch_bytes();
  }
  int64_t workspace_bytes() const override { return reader_.kernel->workspace_bytes(); }
  int64_t estimated_ns() const override {
    return chain_.kernel->estimated_ns() + reader_.kernel->estimated_ns();
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    const Source source(*this, args);
    std::byte* buffers[kMaxKernelBuffers];
    gather(reader_, args, nullptr, buffers);
    reader_.kernel->run({.buffers = buffers,
                         .scratch = args.scratch + held_bytes_ + chain_bytes_,
                         .workspace = args.workspace,
                         .random = args.random,
                         .source = &source},
                        phase, task);
  }

 private:
  class Source final : public ElementSource {
   public:
    Source(const TakenRuns& kernel, const KernelArgs& args) : kernel_(kernel), args_(args) {}
    const std::byte* take(int64_t first, int64_t count) const override {
      return kernel_.make(args_, first, count);
    }

   private:
    const TakenRuns& kernel_;
    const KernelArgs& args_;
  };

  // Collects the buffers of a part, of which `held` is the held value.
  static void gather(const RowsPart& part, const KernelArgs& args, std::byte* held,
                     std::byte** buffers) {
    for (size_t i = 0; i < part.buffers.size(); ++i) {
      buffers[i] = part.buffers[i] < 0 ? held : args.buffers[part.buffers[i]];
    }
  }

  // Runs the chain on some elements, and returns what it makes of them.
  const std::byte* make(const KernelArgs& args, int64_t first, int64_t count) const {
    // The chain finds element 0 where it would be if the scratch began with element `first`.
    const auto at = reinterpret_cast<uintptr_t>(args.scratch);
    auto* held = reinterpret_cast<std::byte*>(at - static_cast<uintptr_t>(first * element_bytes_));
    std::byte* buffers[kMaxKernelBuffers];
    gather(chain_, args, held, buffers);
    chain_.kernel->run_parts({.buffers = buffers,
                              .scratch = args.scratch + held_bytes_,
                              .workspace = nullptr,
                              .random = args.random},
                             first, first + count, elements_);
    const int own = reader_.buffers.front();
    return own < 0 ? args.scratch : args.buffers[own] + first * element_bytes_;
  }

  RowsPart chain_, reader_;
  int64_t elements_, element_bytes_, held_bytes_, chain_bytes_;
};

}  // namespace

std::unique_ptr<BoundKernel> take_runs_of(RowsPart chain, RowsPart reader, int64_t elements,
                                          int64_t element_bytes) {
  return std::make_unique<TakenRuns>(std::move(chain), std::move(reader), elements, element_bytes);
}

}  // namespace poptorch::emulator
