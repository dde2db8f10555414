// Kernels that work on one line of a tensor at a time: the elements along an axis, or along several
// neighbouring ones. Lines that are not contiguous are gathered into scratch, several at a time.
#pragma once

#include <array>
#include <functional>

#include "emulator/kernels/base/support.hpp"

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
  std::array<std::byte*, kMost> buffers{};
  std::byte* scratch;
  template <typename T>
  T* at(int i) const {
    return reinterpret_cast<T*>(buffers[i]);
  }
  // Moves to the next line: by `bytes` in each buffer that is used.
  void advance(const std::array<int64_t, kMost>& bytes) {
    for (int i = 0; i < kMost; ++i) {
      if (buffers[i]) buffers[i] += bytes[i];
    }
  }
};

// Computes `count` lines; those of each buffer are `bytes` apart.
using LinesFn =
    std::function<void(Line first, const std::array<int64_t, Line::kMost>& bytes, int64_t count)>;

std::unique_ptr<BoundKernel> make_lines_kernel(const KernelRequest& request, int64_t first,
                                               int64_t last, int64_t element_ns, int64_t scratch,
                                               LinesFn compute);

// Makes the kernel of a request whose operands and results all have lines along [first, last].
// Returns nullptr for an empty tensor, an epilogue, or more buffers than a Line holds.
template <typename LineFn>
std::unique_ptr<BoundKernel> make_along_axis(const KernelRequest& request, int64_t first,
                                             int64_t last, int64_t element_ns, int64_t scratch,
                                             LineFn compute) {
  auto each = [compute = std::move(compute)](Line line, const auto& bytes, int64_t count) {
    for (; count > 0; --count, line.advance(bytes)) compute(line);
  };
  return make_lines_kernel(request, first, last, element_ns, scratch, std::move(each));
}

}  // namespace poptorch::emulator
