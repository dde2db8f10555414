// Defines the table of view operators.
#include "frontends/torch/tracer/dispatch/views.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "frontends/torch/tracer/values/types.hpp"

namespace poptorch::frontend {
namespace {

struct View {
  const TorchCall& call;
  const at::Tensor& base;
  const at::Tensor& result;
  int64_t index;
  int64_t& position;

  int64_t axis(int64_t dim) const { return call.axis(dim, base.dim()); }
};

using LinkRule = std::function<ViewLinkPtr(const View&)>;

ViewLinkPtr same_order(const View& v) {
  return reshape_link(v.base.sizes().vec(), v.result.sizes().vec());
}

ViewLinkPtr range_along(const View& v, int64_t axis, int64_t start, int64_t count, int64_t step) {
  ir::Ints starts(v.base.dim(), 0), stops(v.base.sizes().vec()), steps(v.base.dim(), 1);
  starts[axis] = start;
  stops[axis] = std::min(stops[axis], start + (count - 1) * step + 1);
  steps[axis] = step;
  return slice_link(starts, stops, steps);
}

ViewLinkPtr permuted(ir::Ints permutation, const View& v) {
  for (int64_t& dim : permutation) dim = v.axis(dim);
  return transpose_link(std::move(permutation));
}

ViewLinkPtr swapped(const View& v, int64_t a, int64_t b) {
  if (v.base.dim() < 2) return same_order(v);
  ir::Ints permutation(v.base.dim());
  for (int64_t i = 0; i < v.base.dim(); ++i) permutation[i] = i;
  std::swap(permutation[v.axis(a)], permutation[v.axis(b)]);
  return transpose_link(std::move(permutation));
}

ViewLinkPtr sliced(const View& v) {
  const int64_t axis = v.axis(v.call.integer("dim", 0));
  const int64_t size = v.base.size(axis);
  int64_t start = v.call.integer("start", 0);
  if (start < 0) start += size;
  start = std::clamp<int64_t>(start, 0, size);
  return range_along(v, axis, start, v.result.size(axis), v.call.integer("step", 1));
}

// Returns the link to one row along `axis`, a dimension that the result does not have.
ViewLinkPtr row_along(const View& v, int64_t axis, int64_t row) {
  ir::Shape kept = v.base.sizes().vec();
  kept[axis] = 1;
  return chain_link(range_along(v, axis, row, 1, 1), reshape_link(kept, v.result.sizes().vec()));
}

ViewLinkPtr selected(const View& v) {
  const int64_t axis = v.axis(v.call.integer("dim"));
  const int64_t row = v.call.integer("index");
  return row_along(v, axis, row < 0 ? row + v.base.size(axis) : row);
}

ViewLinkPtr part(const View& v) {
  const int64_t axis = v.axis(v.call.integer("dim", 0));
  const int64_t start = v.position;
  v.position += v.result.size(axis);
  return range_along(v, axis, start, v.result.size(axis), 1);
}

ViewLinkPtr as_pairs(const View& v) {
  const auto type_of = [](const at::Tensor& tensor) {
    return ir::Type{narrow(ir_dtype(tensor.scalar_type())), tensor.sizes().vec()};
  };
  return pairs_link(type_of(v.base), type_of(v.result));
}

const std::unordered_map<std::string, LinkRule>& table() {
  static const std::unordered_map<std::string, LinkRule> rows{
      {"aten::view", same_order},
      {"aten::_unsafe_view", same_order},
      {"aten::view_as_real", as_pairs},
      {"aten::view_as_complex", as_pairs},
      {"aten::_conj", [](const View&) { return conjugate_link(); }},
      {"aten::_neg_view", [](const View&) { return negative_link(); }},
      {"aten::_reshape_alias", same_order},
      {"aten::unsqueeze", same_order},
      {"aten::squeeze", same_order},
      {"aten::alias", same_order},
      {"aten::detach", same_order},
      {"aten::t", [](const View& v) { return swapped(v, 0, -1); }},
      {"aten::transpose",
       [](const View& v) { return swapped(v, v.call.integer("dim0"), v.call.integer("dim1")); }},
      {"aten::permute", [](const View& v) { return permuted(v.call.ints("dims"), v); }},
      {"aten::slice", sliced},
      {"aten::select", selected},
      {"aten::expand",
       [](const View& v) { return broadcast_link(v.base.sizes().vec(), v.result.sizes().vec()); }},
      {"aten::split", part},
      {"aten::split_with_sizes", part},
      {"aten::unsafe_split", part},
      {"aten::unsafe_split_with_sizes", part},
      {"aten::unbind",
       [](const View& v) { return row_along(v, v.axis(v.call.integer("dim", 0)), v.index); }},
  };
  return rows;
}

}  // namespace

ViewLinkPtr link_of_view(const std::string& op, const TorchCall& call, const at::Tensor& base,
                         const at::Tensor& result, int64_t index, int64_t& position) {
  const auto row = table().find(op);
  if (row == table().end()) return nullptr;
  const bool reads_bits = op == "aten::view" && base.scalar_type() != result.scalar_type();
  if (reads_bits) return nullptr;
  return row->second({call, base, result, index, position});
}

}  // namespace poptorch::frontend
