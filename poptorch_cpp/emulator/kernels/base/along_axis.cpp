#include "emulator/kernels/base/along_axis.hpp"

#include <vector>

#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/transpose_block.hpp"

namespace poptorch::emulator {
namespace {

// The part of a line that one buffer holds.
struct LineBuffer {
  int64_t length = 0, element_bytes = 4;
  bool input = true;
  int64_t bytes() const { return length * element_bytes; }
  int64_t held_bytes() const { return round_up(bytes(), 64); }
};

class AlongAxis final : public BoundKernel {
 public:
  // `buffers` follow the order of KernelArgs; a line takes about `line_ns` and `scratch` bytes.
  AlongAxis(const Lines& lines, std::vector<LineBuffer> buffers, int64_t line_ns, int64_t scratch,
            LinesFn compute)
      : outer_(lines.outer),
        inner_(lines.inner),
        buffers_(std::move(buffers)),
        block_(std::min(inner_, kLinesAtOnce)),
        items_(outer_ * divide_up(inner_, block_)),
        ns_(lines.count() * line_ns),
        parts_(parts_for(ns_, items_)),
        own_scratch_(round_up(scratch, 64)),
        compute_(std::move(compute)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  int64_t scratch_bytes() const override {
    int64_t bytes = own_scratch_;
    for (const LineBuffer& buffer : buffers_) {
      bytes += inner_ == 1 ? 0 : block_ * buffer.held_bytes();
    }
    return bytes;
  }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(items_, parts_, task);
    if (inner_ == 1) return run_in_place(args, range);
    for (int64_t item = range.begin; item < range.end; ++item) by_scratch(args, item);
  }

 private:
  static constexpr int64_t kLinesAtOnce = 16;

  void run_in_place(const KernelArgs& args, Range range) const {
    Line line{.scratch = args.scratch};
    std::array<int64_t, Line::kMost> steps{};
    for (size_t b = 0; b < buffers_.size(); ++b) {
      steps[b] = buffers_[b].bytes();
      line.buffers[b] = args.buffers[b] ? args.buffers[b] + range.begin * steps[b] : nullptr;
    }
    compute_(line, steps, range.end - range.begin);
  }

  void by_scratch(const KernelArgs& args, int64_t item) const {
    const int64_t blocks = divide_up(inner_, block_), o = item / blocks;
    const int64_t first = item % blocks * block_, count = std::min(block_, inner_ - first);
    Line held{.scratch = args.scratch};
    std::array<int64_t, Line::kMost> steps{};
    std::byte* at = args.scratch + own_scratch_;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (!args.buffers[b]) continue;
      held.buffers[b] = at;
      steps[b] = buffers_[b].held_bytes();
      at += block_ * steps[b];
      if (buffers_[b].input) move(args, b, held.buffers[b], o, first, count);
    }
    compute_(held, steps, count);
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (held.buffers[b] && !buffers_[b].input) move(args, b, held.buffers[b], o, first, count);
    }
  }

  void move(const KernelArgs& args, size_t b, std::byte* held, int64_t o, int64_t first,
            int64_t count) const {
    with_word(buffers_[b].element_bytes,
              [&]<typename T>(T) { move_as<T>(args, b, held, o, first, count); });
  }
  template <typename T>
  void move_as(const KernelArgs& args, size_t b, std::byte* held, int64_t o, int64_t first,
               int64_t count) const {
    const LineBuffer& buffer = buffers_[b];
    const int64_t step = buffer.held_bytes() / static_cast<int64_t>(sizeof(T));
    T* memory = buffer_of<T>(args, static_cast<int>(b)) + o * buffer.length * inner_ + first;
    T* lines = reinterpret_cast<T*>(held);
    if (buffer.input) {
      transpose_matrix(memory, inner_, lines, step, buffer.length, count);
    } else {
      transpose_matrix(lines, step, memory, inner_, count, buffer.length);
    }
  }

  int64_t outer_, inner_;
  std::vector<LineBuffer> buffers_;
  int64_t block_, items_, ns_, parts_, own_scratch_;
  LinesFn compute_;
};

}  // namespace

std::unique_ptr<BoundKernel> make_lines_kernel(const KernelRequest& request, int64_t first,
                                               int64_t last, int64_t element_ns, int64_t scratch,
                                               LinesFn compute) {
  if (request.epilogue || request.inputs.size() + request.outputs.size() > Line::kMost) {
    return nullptr;
  }
  const Lines lines(request.inputs[0]->shape, first, last);
  if (lines.count() * lines.size == 0) return nullptr;
  std::vector<LineBuffer> buffers;
  auto add = [&](const ir::Type& type, bool input) {
    buffers.push_back({type.elements() / lines.count(), ir::size_of(type.dtype), input});
  };
  for (const auto& type : request.inputs) add(*type, true);
  for (const ir::Type& type : request.outputs) add(type, false);
  return std::make_unique<AlongAxis>(lines, std::move(buffers), lines.size * element_ns, scratch,
                                     std::move(compute));
}

}  // namespace poptorch::emulator
