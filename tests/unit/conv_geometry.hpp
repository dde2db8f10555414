// Convolutions of small images for tests: their shapes and attributes.
#pragma once

#include "ir/op_def.hpp"

namespace poptorch::emulator {

struct ConvGeometry {
  int64_t batch, in, out, groups;
  ir::Shape size, kernel;
  int64_t stride, padding, dilation;

  ir::Shape image() const { return with({batch, in}, size); }
  ir::Shape weight() const { return with({out, in / groups}, kernel); }
  ir::Shape result() const {
    ir::Shape sizes;
    for (size_t d = 0; d < size.size(); ++d) {
      const int64_t reach = dilation * (kernel[d] - 1) + 1;
      sizes.push_back((size[d] + 2 * padding - reach) / stride + 1);
    }
    return with({batch, out}, sizes);
  }
  ir::Attrs attrs() const {
    const size_t spatial = size.size();
    return {{"strides", ir::Ints(spatial, stride)},
            {"padding", ir::Ints(spatial, padding)},
            {"dilation", ir::Ints(spatial, dilation)},
            {"groups", groups}};
  }

 private:
  static ir::Shape with(ir::Shape first, const ir::Shape& sizes) {
    first.insert(first.end(), sizes.begin(), sizes.end());
    return first;
  }
};

}  // namespace poptorch::emulator
