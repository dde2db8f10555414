// Operands and results of attention, of floats or halves. Halves are converted head by head, or
// block by block, in scratch.
#pragma once

#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/sets/half_elements.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// A buffer of a kernel with the type of its elements.
struct TypedBuffer {
  int index = 0;
  ir::DType dtype = ir::DType::kF32;

  Element element() const { return element_of(dtype); }
  bool halves() const { return element() != Element::kFloat; }
  // Returns the floats of scratch that `count` elements need.
  int64_t held_floats(int64_t count) const { return halves() ? round_up(count, 16) : 0; }

  OperandView view(const KernelArgs& args, int64_t first, int64_t row, int64_t col) const {
    return OperandView(args.buffers[index], row, col, element()).at(first);
  }
  // Returns `count` elements from element `first` on: in place, or converted into `held`.
  const float* read(const KernelArgs& args, int64_t first, int64_t count, float* held) const {
    if (!halves()) return input_of<float>(args, index) + first;
    to_floats(element(), input_of<uint16_t>(args, index) + first, held, count);
    return held;
  }
  // Returns where to compute elements from `first` on: in place, or in `held`. write() ends it.
  float* begin(const KernelArgs& args, int64_t first, float* held) const {
    return halves() ? held : buffer_of<float>(args, index) + first;
  }
  // Rounds `count` elements in `held` to their place.
  void write(const KernelArgs& args, int64_t first, int64_t count, const float* held) const {
    if (!halves()) return;
    MicroArgs micro;
    micro.src[0] = held;
    micro.dst[0] = buffer_of<uint16_t>(args, index) + first;
    store_fn(dtype)(micro, count);
  }
};

inline TypedBuffer typed_input(const KernelRequest& request, int i) {
  const auto& type = request.inputs[i];
  return {i, type ? type->dtype : ir::DType::kF32};
}
inline TypedBuffer typed_output(const KernelRequest& request, int i) {
  return {static_cast<int>(request.inputs.size()) + i, request.outputs[i].dtype};
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
