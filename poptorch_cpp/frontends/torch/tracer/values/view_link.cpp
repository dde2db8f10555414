// Defines the kinds of view links.
#include "frontends/torch/tracer/values/view_link.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using ir::Builder;
using ir::Ints;
using ir::Shape;
using ir::Value;

Value* reshape(Builder& b, Value* x, const Shape& shape) {
  if (x->type().shape == shape) return x;
  return b.value("reshape", {x}, {{"shape", Ints(shape)}});
}

struct ReshapeLink final : ViewLink {
  ReshapeLink(Shape from, Shape to) : from(std::move(from)), to(std::move(to)) {}
  Value* read(Builder& b, Value* base) const override { return reshape(b, base, to); }
  Value* write(Builder& b, Value*, Value* view) const override { return reshape(b, view, from); }
  Shape from, to;
};

struct TransposeLink final : ViewLink {
  explicit TransposeLink(Ints p) : permutation(std::move(p)), inverse(permutation.size()) {
    for (size_t i = 0; i < permutation.size(); ++i) {
      inverse[permutation[i]] = static_cast<int64_t>(i);
    }
  }
  Value* read(Builder& b, Value* base) const override {
    return b.value("transpose", {base}, {{"permutation", permutation}});
  }
  Value* write(Builder& b, Value*, Value* view) const override {
    return b.value("transpose", {view}, {{"permutation", inverse}});
  }
  Ints permutation, inverse;
};

struct SliceLink final : ViewLink {
  SliceLink(Ints starts, Ints stops, Ints steps)
      : attrs{{"starts", std::move(starts)},
              {"stops", std::move(stops)},
              {"steps", std::move(steps)}} {}
  Value* read(Builder& b, Value* base) const override { return b.value("slice", {base}, attrs); }
  Value* write(Builder& b, Value* base, Value* view) const override {
    return b.value("insert_slice", {base, view}, attrs);
  }
  ir::Attrs attrs;
};

struct BroadcastLink final : ViewLink {
  BroadcastLink(Shape from, Shape to) : from(std::move(from)), to(std::move(to)) {}
  Value* read(Builder& b, Value* base) const override {
    if (base->type().shape == to) return base;
    return b.value("broadcast_to", {base}, {{"shape", Ints(to)}});
  }
  Value* write(Builder& b, Value*, Value* view) const override {
    if (!repeats()) return reshape(b, view, from);
    throw support::UserError(support::str(
        "[tracer] a tensor expanded from ", ir::shape_text(from), " to ", ir::shape_text(to),
        " is written in place, but several of its elements share memory. Clone it first."));
  }
  bool repeats() const override { return ir::element_count(from) != ir::element_count(to); }
  Shape from, to;
};

struct StridedLink final : ViewLink {
  StridedLink(Shape from, Shape to, std::vector<int32_t> indices)
      : from(std::move(from)), to(std::move(to)), indices(std::move(indices)) {}
  Value* index_constant(Builder& b) const {
    std::vector<std::byte> bytes(indices.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), indices.data(), bytes.size());
    const auto count = static_cast<int64_t>(indices.size());
    return b.constant(ir::Literal({ir::DType::kI32, {count}}, std::move(bytes)));
  }
  Value* read(Builder& b, Value* base) const override {
    Value* flat = reshape(b, base, {ir::element_count(from)});
    Value* picked = b.value("index_select", {flat, index_constant(b)}, {{"axis", int64_t{0}}});
    return reshape(b, picked, to);
  }
  Value* write(Builder& b, Value* base, Value* view) const override {
    if (repeats()) {
      throw support::UserError(
          "[tracer] a view with overlapping elements is written in place. Clone it first.");
    }
    Value* flat = reshape(b, base, {ir::element_count(from)});
    Value* source = reshape(b, view, {ir::element_count(to)});
    Value* written = b.value("scatter", {flat, index_constant(b), source}, {{"axis", int64_t{0}}});
    return reshape(b, written, from);
  }
  bool repeats() const override {
    return std::set<int32_t>(indices.begin(), indices.end()).size() != indices.size();
  }
  Shape from, to;
  std::vector<int32_t> indices;
};

// Returns the result, of type `type`, of an operator of torch that takes one tensor.
Value* call(Builder& b, const char* schema, Value* x, const ir::Type& type) {
  const std::string arguments =
      support::str("[{\"operand\":0,\"dtype\":\"", ir::name(x->type().dtype), "\"}]");
  return b.emit("aten", {x}, {{"schema", schema}, {"arguments", arguments}}, {type})->result(0);
}

// Reads complex numbers as pairs of real ones, or pairs as complex numbers, by torch's operators.
struct PairsLink final : ViewLink {
  PairsLink(ir::Type from, ir::Type to) : from(std::move(from)), to(std::move(to)) {}
  static Value* convert(Builder& b, Value* x, const ir::Type& type) {
    const char* schema =
        ir::is_complex(type.dtype) ? "aten::view_as_complex.default" : "aten::view_as_real.default";
    return call(b, schema, x, type);
  }
  Value* read(Builder& b, Value* base) const override { return convert(b, base, to); }
  Value* write(Builder& b, Value*, Value* view) const override { return convert(b, view, from); }
  ir::Type from, to;
};

struct ConjugateLink final : ViewLink {
  static Value* conjugate(Builder& b, Value* x) {
    return call(b, "aten::conj_physical.default", x, x->type());
  }
  Value* read(Builder& b, Value* base) const override { return conjugate(b, base); }
  Value* write(Builder& b, Value*, Value* view) const override { return conjugate(b, view); }
};

struct NegativeLink final : ViewLink {
  static Value* negative(Builder& b, Value* x) {
    if (ir::is_complex(x->type().dtype)) return call(b, "aten::neg.default", x, x->type());
    return b.value("neg", {x});
  }
  Value* read(Builder& b, Value* base) const override { return negative(b, base); }
  Value* write(Builder& b, Value*, Value* view) const override { return negative(b, view); }
};

struct ChainLink final : ViewLink {
  ChainLink(ViewLinkPtr first, ViewLinkPtr second)
      : first(std::move(first)), second(std::move(second)) {}
  Value* read(Builder& b, Value* base) const override {
    return second->read(b, first->read(b, base));
  }
  Value* write(Builder& b, Value* base, Value* view) const override {
    return first->write(b, base, second->write(b, first->read(b, base), view));
  }
  bool repeats() const override { return first->repeats() || second->repeats(); }
  ViewLinkPtr first, second;
};

// Returns the distance of neighbouring indices; 0 if they do not increase by one distance.
int64_t step_of(const std::vector<int32_t>& indices) {
  if (indices.size() < 2) return 0;
  const int64_t step = int64_t{indices[1]} - indices[0];
  for (size_t i = 2; i < indices.size(); ++i) {
    if (int64_t{indices[i]} - indices[i - 1] != step) return 0;
  }
  return std::max<int64_t>(step, 0);
}

}  // namespace

ViewLinkPtr reshape_link(Shape from, Shape to) {
  return std::make_shared<ReshapeLink>(std::move(from), std::move(to));
}
ViewLinkPtr transpose_link(Ints permutation) {
  return std::make_shared<TransposeLink>(std::move(permutation));
}
ViewLinkPtr slice_link(Ints starts, Ints stops, Ints steps) {
  return std::make_shared<SliceLink>(std::move(starts), std::move(stops), std::move(steps));
}
ViewLinkPtr broadcast_link(Shape from, Shape to) {
  return std::make_shared<BroadcastLink>(std::move(from), std::move(to));
}
ViewLinkPtr strided_link(Shape from, Shape to, std::vector<int32_t> indices) {
  if (const int64_t step = step_of(indices); step > 0) {
    const int64_t count = ir::element_count(from), taken = ir::element_count(to);
    const auto elements = slice_link({indices.front()}, {indices.back() + 1}, {step});
    return chain_link(reshape_link(std::move(from), {count}),
                      chain_link(elements, reshape_link({taken}, std::move(to))));
  }
  return std::make_shared<StridedLink>(std::move(from), std::move(to), std::move(indices));
}
ViewLinkPtr pairs_link(ir::Type from, ir::Type to) {
  return std::make_shared<PairsLink>(std::move(from), std::move(to));
}
ViewLinkPtr conjugate_link() { return std::make_shared<ConjugateLink>(); }
ViewLinkPtr negative_link() { return std::make_shared<NegativeLink>(); }
ViewLinkPtr chain_link(ViewLinkPtr first, ViewLinkPtr second) {
  return std::make_shared<ChainLink>(std::move(first), std::move(second));
}

}  // namespace poptorch::frontend
