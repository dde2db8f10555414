// Kernels that work on one line of a tensor at a time: the elements along an axis, or along several
// neighbouring ones. Lines that are not contiguous are gathered into scratch, several at a time.
#pragma once

#include <vector>

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/transpose_block.hpp"

namespace poptorch::emulator {

// A tensor as outer × size × inner around axes [first, last].
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
  Lines(const ir::Shape& shape, int64_t first, int64_t last) {
    for (int64_t d = 0; d < std::ssize(shape); ++d) {
      (d < first ? outer : d > last ? inner : size) *= shape[d];
    }
  }
  int64_t count() const { return outer * inner; }
};

// One line of every operand and result, each dense. The kernel writes the results; nullptr: the
// result is unused.
struct Line {
  static constexpr int kMost = 4;
  std::byte* buffers[kMost];
  std::byte* scratch;
  template <typename T>
  T* at(int i) const {
    return reinterpret_cast<T*>(buffers[i]);
  }
};

// The part of a line that one buffer holds.
struct LineBuffer {
  int64_t length = 0, element_bytes = 4;
  bool input = true;
  int64_t bytes() const { return round_up(length * element_bytes, 64); }
};

template <typename LineFn>
class AlongAxis final : public BoundKernel {
 public:
  // `buffers` follow the order of KernelArgs; a line takes about `line_ns` and `scratch` bytes.
  AlongAxis(const Lines& lines, std::vector<LineBuffer> buffers, int64_t line_ns, int64_t scratch,
            LineFn line)
      : outer_(lines.outer),
        inner_(lines.inner),
        buffers_(std::move(buffers)),
        block_(std::min(inner_, kLinesAtOnce)),
        items_(outer_ * divide_up(inner_, block_)),
        ns_(lines.count() * line_ns),
        parts_(parts_for(ns_, items_)),
        own_scratch_(round_up(scratch, 64)),
        line_(std::move(line)) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  int64_t scratch_bytes() const override {
    int64_t bytes = own_scratch_;
    for (const LineBuffer& buffer : buffers_) bytes += inner_ == 1 ? 0 : block_ * buffer.bytes();
    return bytes;
  }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(items_, parts_, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      inner_ == 1 ? where_it_stands(args, item) : by_scratch(args, item);
    }
  }

 private:
  static constexpr int64_t kLinesAtOnce = 16;

  void where_it_stands(const KernelArgs& args, int64_t o) const {
    Line line{.buffers = {}, .scratch = args.scratch};
    for (size_t b = 0; b < buffers_.size(); ++b) {
      std::byte* base = args.buffers[b];
      line.buffers[b] = base ? base + o * buffers_[b].length * buffers_[b].element_bytes : nullptr;
    }
    line_(line);
  }

  void by_scratch(const KernelArgs& args, int64_t item) const {
    const int64_t blocks = divide_up(inner_, block_), o = item / blocks;
    const int64_t first = item % blocks * block_, count = std::min(block_, inner_ - first);
    std::byte* held[Line::kMost] = {};
    std::byte* at = args.scratch + own_scratch_;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (!args.buffers[b]) continue;
      held[b] = at;
      at += block_ * buffers_[b].bytes();
      if (buffers_[b].input) move(args, b, held[b], o, first, count);
    }
    for (int64_t l = 0; l < count; ++l) {
      Line line{.buffers = {}, .scratch = args.scratch};
      for (size_t b = 0; b < buffers_.size(); ++b) {
        line.buffers[b] = held[b] ? held[b] + l * buffers_[b].bytes() : nullptr;
      }
      line_(line);
    }
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (held[b] && !buffers_[b].input) move(args, b, held[b], o, first, count);
    }
  }

  void move(const KernelArgs& args, size_t b, std::byte* held, int64_t o, int64_t first,
            int64_t count) const {
    switch (buffers_[b].element_bytes) {
      case 1:
        return move_as<uint8_t>(args, b, held, o, first, count);
      case 2:
        return move_as<uint16_t>(args, b, held, o, first, count);
      case 4:
        return move_as<uint32_t>(args, b, held, o, first, count);
      default:
        return move_as<uint64_t>(args, b, held, o, first, count);
    }
  }
  template <typename T>
  void move_as(const KernelArgs& args, size_t b, std::byte* held, int64_t o, int64_t first,
               int64_t count) const {
    const LineBuffer& buffer = buffers_[b];
    const int64_t step = buffer.bytes() / static_cast<int64_t>(sizeof(T));
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
  LineFn line_;
};

// Makes the kernel of a request whose operands and results all have lines along [first, last].
// Returns nullptr for an empty tensor, an epilogue, or more buffers than a Line holds.
template <typename LineFn>
std::unique_ptr<BoundKernel> make_along_axis(const KernelRequest& request, int64_t first,
                                             int64_t last, int64_t element_ns, int64_t scratch,
                                             LineFn line) {
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
  return std::make_unique<AlongAxis<LineFn>>(lines, std::move(buffers), lines.size * element_ns,
                                             scratch, std::move(line));
}

}  // namespace poptorch::emulator
