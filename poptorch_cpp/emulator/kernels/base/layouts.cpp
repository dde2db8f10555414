#include "emulator/kernels/base/layouts.hpp"

#include <algorithm>

namespace poptorch::emulator {

using ir::Shape;

Shape memory_order(int64_t rank, Layout::Kind kind) {
  Shape order;
  if (kind != Layout::Kind::kChannelsLast || rank < 3) {
    for (int64_t d = 0; d < rank; ++d) order.push_back(d);
    return order;
  }
  order.push_back(0);
  for (int64_t d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

Shape memory_shape(const Shape& shape, Layout::Kind kind) {
  Shape ordered;
  for (int64_t d : memory_order(static_cast<int64_t>(shape.size()), kind)) {
    ordered.push_back(shape[d]);
  }
  return ordered;
}

Shape numbers_in_order(const Shape& shape, Layout::Kind kind) {
  const Shape numbers = ir::row_major_strides(shape);
  Shape ordered;
  for (int64_t d : memory_order(static_cast<int64_t>(shape.size()), kind)) {
    ordered.push_back(numbers[d]);
  }
  return ordered;
}

Shape memory_strides(const Shape& shape, Layout::Kind kind) {
  const Shape order = memory_order(static_cast<int64_t>(shape.size()), kind);
  const Shape dense = ir::row_major_strides(memory_shape(shape, kind));
  Shape strides(shape.size());
  for (size_t i = 0; i < order.size(); ++i) strides[order[i]] = dense[i];
  return strides;
}

Shape operand_strides(const Shape& operand, Layout::Kind kind, const Shape& result,
                      Layout::Kind result_kind) {
  return strided_operand(operand, memory_strides(operand, kind), result, result_kind);
}

Shape strided_operand(const Shape& operand, const Shape& own, const Shape& result,
                      Layout::Kind result_kind) {
  Shape by_type(result.size(), 0);
  for (size_t d = 0; d < operand.size(); ++d) {
    if (operand[d] != 1) by_type[result.size() - operand.size() + d] = own[d];
  }
  Shape strides;
  for (int64_t d : memory_order(static_cast<int64_t>(result.size()), result_kind)) {
    strides.push_back(by_type[d]);
  }
  return strides;
}

void choose_elementwise_layouts(KernelRequest& request) {
  const ir::Type& result = request.outputs.empty() ? *request.inputs[0] : request.outputs[0];
  Layout chosen;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& type = request.inputs[i];
    const Layout& offered = request.input_layouts[i];
    if (!type || type->shape != result.shape) continue;
    if (offered.kind == Layout::Kind::kPlain || offered.is_panels()) continue;
    chosen = offered;
    break;
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& type = request.inputs[i];
    request.input_layouts[i] = type && type->shape == result.shape ? chosen : Layout{};
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    request.output_layouts[i] = request.outputs[i].shape == result.shape ? chosen : Layout{};
  }
}

void choose_moved_layouts(KernelRequest& request) {
  const int64_t rank = request.outputs[0].rank();
  int64_t all = 0, offered = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (!request.inputs[i] || request.inputs[i]->rank() != rank) continue;
    all += request.inputs[i]->elements();
    const bool last = request.input_layouts[i].kind == Layout::Kind::kChannelsLast;
    offered += last ? request.inputs[i]->elements() : 0;
  }
  Layout chosen;
  if (rank >= 3 && 2 * offered > all && !request.has_strides())
    chosen.kind = Layout::Kind::kChannelsLast;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const bool moved = request.inputs[i] && request.inputs[i]->rank() == rank;
    request.input_layouts[i] = moved ? chosen : Layout{};
  }
  request.output_layouts[0] = chosen;
}

KernelRequest in_memory_order(KernelRequest request) {
  const Layout::Kind kind = request.output_layouts[0].kind;
  if (kind == Layout::Kind::kPlain) return request;
  const int64_t rank = request.outputs[0].rank();
  const Shape order = memory_order(rank, kind);
  auto place_of = [&](int64_t dimension) {
    return std::find(order.begin(), order.end(), dimension) - order.begin();
  };
  for (auto& input : request.inputs) {
    if (input && input->rank() == rank) input->shape = memory_shape(input->shape, kind);
  }
  request.outputs[0].shape = memory_shape(request.outputs[0].shape, kind);
  request.input_layouts.assign(request.inputs.size(), {});
  request.output_layouts.assign(request.outputs.size(), {});
  if (const ir::Attr* axis = request.attrs.find("axis")) {
    request.attrs.set("axis", int64_t{place_of(std::get<int64_t>(*axis))});
  }
  if (const ir::Attr* axes = request.attrs.find("axes")) {
    ir::Ints places;
    for (int64_t d : std::get<ir::Ints>(*axes)) places.push_back(place_of(d));
    request.attrs.set("axes", places);
  }
  for (const char* name : {"starts", "stops", "steps", "low", "high"}) {
    if (const ir::Attr* by_dimension = request.attrs.find(name)) {
      request.attrs.set(name, ir::Ints(memory_shape(std::get<ir::Ints>(*by_dimension), kind)));
    }
  }
  return request;
}

}  // namespace poptorch::emulator
