// Windows and layouts of the ops that pool.
#pragma once

#include "emulator/kernels/sets/reduce/pool_window.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

inline PoolWindow window_of(const KernelRequest& request, const ir::Shape& x, const ir::Shape& y) {
  PoolWindow w;
  w.batch = x[0];
  w.channels = x[1];
  const size_t spatial = x.size() - 2;
  const bool dilated = request.op->find_attr("dilation") != nullptr;
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = 3 - spatial + d;
    w.in[at] = x[2 + d];
    w.out[at] = y[2 + d];
    w.kernel[at] = request.attr<ir::Ints>("kernel")[d];
    w.strides[at] = request.attr<ir::Ints>("strides")[d];
    w.padding[at] = request.attr<ir::Ints>("padding")[d];
    if (dilated) w.dilation[at] = request.attr<ir::Ints>("dilation")[d];
  }
  if (!dilated) {
    w.include_pad = request.attr<bool>("count_include_pad");
    w.divisor = request.attr<int64_t>("divisor");
  }
  w.join_last_to_channels();
  return w;
}

inline void choose_channels_last(KernelRequest& request) {
  for (Layout& layout : request.input_layouts) layout.kind = Layout::Kind::kChannelsLast;
  for (Layout& layout : request.output_layouts) layout.kind = Layout::Kind::kChannelsLast;
}

inline bool fits_pool(const KernelRequest& request) {
  bool good = request.outputs[0].elements() > 0;
  for (const auto& type : request.inputs) good &= type->dtype == ir::DType::kF32;
  for (const Layout& l : request.input_layouts) good &= l.kind == Layout::Kind::kChannelsLast;
  return good && request.output_layouts[0].kind == Layout::Kind::kChannelsLast;
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
