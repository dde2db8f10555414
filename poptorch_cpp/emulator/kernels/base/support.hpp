// The helpers that kernel families share: scratch layout, epilogues, splits, and running a float32
// kernel on half types.
#pragma once

#include <algorithm>
#include <functional>

#include "emulator/kernels/base/tile_program.hpp"

namespace poptorch::emulator {

inline int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
inline int64_t divide_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

// Returns the number of parts of a job of `ns` nanoseconds. It depends on the size alone, never on
// the threads.
inline int64_t parts_for(int64_t ns, int64_t most) {
  return std::clamp<int64_t>(ns / 12000, 1, std::max<int64_t>(most, 1));
}

// Part `index` of [0, n) cut into `parts`, in units of `unit`.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
inline Range part_of(int64_t n, int64_t parts, int64_t index, int64_t unit = 1) {
  const int64_t units = divide_up(n, unit);
  return {std::min(n, units * index / parts * unit),
          std::min(n, units * (index + 1) / parts * unit)};
}

template <typename T>
const T* input_of(const KernelArgs& args, int i) {
  return reinterpret_cast<const T*>(args.buffers[i]);
}
template <typename T>
T* buffer_of(const KernelArgs& args, int i) {
  return reinterpret_cast<T*>(args.buffers[i]);
}

// The fewest neighbours that repay a call of KernelArgs::source.
constexpr int64_t kLeastTaken = 256;

// Returns `count` neighbours of operand 0, of a kernel that has elements_at_once().
template <typename T>
const T* elements_of(const KernelArgs& args, int64_t first, int64_t count) {
  if (args.source) return reinterpret_cast<const T*>(args.source->take(first, count));
  return input_of<T>(args, 0) + first;
}

// The fused chain of a request; its producer runs it on blocks of output 0.
class Epilogue {
 public:
  // Elements that a kernel makes before it runs the epilogue on them: they are still in the cache.
  static constexpr int64_t kTogether = 4096;
  explicit Epilogue(const KernelRequest& request)
      : program_(request.epilogue),
        output_(static_cast<int>(request.inputs.size())),
        more_(static_cast<int>(request.inputs.size() + request.outputs.size())),
        keeps_(!request.output_used.empty() && request.output_used[0]) {}
  explicit operator bool() const { return program_ != nullptr; }
  int64_t scratch_bytes() const { return program_ ? program_->scratch_bytes() : 0; }
  int64_t estimated_ns(int64_t elements) const {
    return program_ ? program_->estimated_ns(elements) : 0;
  }
  bool takes_product() const { return program_ && program_->takes_product(); }
  // Element (0, 0) of the product is element `first` of output 0.
  void run_product(const KernelArgs& args, int64_t first, const NarrowProduct& product,
                   std::byte* scratch) const {
    std::byte* buffers[kMaxKernelBuffers];
    gather(args, buffers);
    program_->run_product(buffers, first, product, scratch, args.random);
  }
  // Returns whether the epilogue is an ending of the kernel's result, which is not used otherwise.
  // The result has the type of the ending, but for an ending of halves at random: it has floats.
  bool is_ending() const { return is_ending_of(Element::kFloat); }
  bool is_half_ending() const {
    return is_ending_of(Element::kHalf) || is_ending_of(Element::kBfloat);
  }
  // Returns the ending of the block that begins at row i and column j of output 0, whose innermost
  // dimension has `columns`.
  Ending ending(const KernelArgs& args, int64_t i, int64_t j, int64_t columns) const {
    Ending whole = inputs_of_ending<Ending>(args);
    whole.row_step = columns;
    return whole.from(i, j);
  }
  // The same for is_half_ending().
  HalfEnding half_ending(const KernelArgs& args, int64_t i, int64_t j, int64_t columns) const {
    HalfEnding whole = inputs_of_ending<HalfEnding>(args);
    whole.row_step = columns;
    whole.element = program_->ending()->element;
    if (program_->ending()->at_random) whole.rounding = program_->ending_rounding(args.random);
    return whole.from(i, j);
  }
  // Output 0 of the block is in block.source, or in its own buffer when that is nullptr.
  void run(const KernelArgs& args, const TileBlock& block, std::byte* scratch) const {
    std::byte* buffers[kMaxKernelBuffers];
    gather(args, buffers);
    program_->run(buffers, block, scratch, args.random);
  }

 private:
  bool is_ending_of(Element element) const {
    return program_ && program_->ending() && program_->ending()->element == element && !keeps_;
  }
  template <typename E>
  E inputs_of_ending(const KernelArgs& args) const {
    std::byte* buffers[kMaxKernelBuffers];
    gather(args, buffers);
    return ending_in<E>(*program_->ending(), buffers, program_->inputs());
  }
  void gather(const KernelArgs& args, std::byte** buffers) const {
    buffers[0] = args.buffers[output_];
    const int count = program_->inputs() + program_->outputs();
    for (int i = 1; i < count; ++i) buffers[i] = args.buffers[more_ + i - 1];
  }
  const TileProgram* program_;
  int output_, more_;
  bool keeps_;  // output 0 itself is used
};

using BindFn = std::unique_ptr<BoundKernel> (*)(const KernelRequest&);

// Binds `bind`, which supports float32 only, for a request on f16 or bf16. Operands are widened
// into the workspace, and results are rounded once when stored. The request's epilogue runs last.
std::unique_ptr<BoundKernel> bind_widened(const KernelRequest& request, BindFn bind);

// Returns `request` with an entry for every optional operand of its row, including absent ones at
// the end.
KernelRequest with_all_operands(const KernelRequest& request);
// Wraps `kernel`, bound for with_all_operands(request), to take the buffers of `request`.
std::unique_ptr<BoundKernel> without_added_operands(std::unique_ptr<BoundKernel> kernel,
                                                    const KernelRequest& request);
bool has_half(const KernelRequest& request);
bool has_half_partials(const KernelRequest& request);  // of an op with the attribute `partials`
bool only_float_to_32(const KernelRequest& request);   // no f64, f8 or complex operand or result

// A row's bind function: f32 binds directly, half types are widened, and the reference runs the
// rest.
template <BindFn bind>
std::unique_ptr<BoundKernel> bind_floats(const KernelRequest& request) {
  if (!only_float_to_32(request)) return nullptr;
  const KernelRequest full = with_all_operands(request);
  auto kernel = has_half(full) ? bind_widened(full, bind) : bind(full);
  return kernel ? without_added_operands(std::move(kernel), request) : nullptr;
}

// The same for a `bind` that takes half types itself.
template <BindFn bind>
std::unique_ptr<BoundKernel> bind_with_halves(const KernelRequest& request) {
  if (!only_float_to_32(request)) return nullptr;
  auto kernel = bind(with_all_operands(request));
  return kernel ? without_added_operands(std::move(kernel), request) : nullptr;
}

}  // namespace poptorch::emulator
