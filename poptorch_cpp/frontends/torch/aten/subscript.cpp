// aten rows of x[i, :, j] and of assignment to it: index tensors for some axes, or a mask.
#include "frontends/torch/aten/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Returns whether the index is a mask. Bytes are masks too when torch indexes with tensors.
bool is_mask(const TensorValue& index) {
  return index.dtype == DType::kBool || index.dtype == DType::kU8;
}

// Holds index tensors broadcast to one shape, and x with the axes that they index in front. Axes
// before neighbouring indexed ones are one more such axis, whose index counts its places: nothing
// moves then.
struct Subscript {
  Val x;
  std::vector<Value*> indices;
  Ints back;                 // the permutation that undoes that of x
  Shape lead, places, rest;  // of the result: axes before, of the index tensors, and after
  Shape seen() const { return joined({&lead, &places, &rest}); }
  Shape held() const {  // the shape of indexed values for the op
    const Shape outer{ir::element_count(lead)};
    return lead.empty() ? seen() : joined({&outer, &places, &rest});
  }

 private:
  static Shape joined(std::initializer_list<const Shape*> parts) {
    Shape shape;
    for (const Shape* part : parts) shape.insert(shape.end(), part->begin(), part->end());
    return shape;
  }
};

Subscript indexing(Call& c, const TensorValue& x, const Values& given) {
  Subscript result;
  Ints front, others;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const bool indexed = i < given.size() && given[i];
    (indexed ? front : others).push_back(axis);
    if (!indexed) continue;
    const auto joint = ir::broadcast(result.places, given[i].shape());
    if (!joint) c.fail("the index tensors do not broadcast.");
    result.places = *joint;
  }
  const Shape shape = x.shape();
  const bool adjacent = front.back() - front.front() + 1 == static_cast<int64_t>(front.size());
  const bool empty = ir::element_count(shape) == 0;  // nothing to count
  const int64_t first = adjacent && !empty ? front.front() : 0;
  result.lead.assign(shape.begin(), shape.begin() + first);
  for (const int64_t axis : others) {
    if (axis >= first) result.rest.push_back(shape[axis]);
  }
  Shape all = result.places;
  if (first > 0) {
    const int64_t outer = ir::element_count(result.lead);
    Shape column(all.size() + 1, 1), merged{outer};
    column[0] = outer;
    all.insert(all.begin(), outer);
    const Val count = c.emit("iota", {}, {{"dtype", DType::kI32}, {"size", outer}});
    result.indices.push_back(c.broadcast(c.reshape(count, column), all));
    merged.insert(merged.end(), shape.begin() + first, shape.end());
    result.x = c.reshape(x.value, merged);
  } else {
    Ints permutation = front;
    permutation.insert(permutation.end(), others.begin(), others.end());
    result.back.resize(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i) {
      result.back[permutation[i]] = static_cast<int64_t>(i);
    }
    result.x = c.transpose(x.value, permutation);
  }
  for (const int64_t axis : front) {
    result.indices.push_back(c.broadcast(c.wrapped_indices(given[axis], shape[axis]), all));
  }
  return result;
}

// Replaces or increases the indexed places of x; `value` broadcasts to the shape that torch shows.
Values put(Call& c, const TensorValue& x, const Values& given, Val value, bool accumulate) {
  const Subscript in = indexing(c, x, given);
  const Val held = c.reshape(c.broadcast(value, in.seen()), in.held());
  std::vector<Value*> operands{in.x, held};
  operands.insert(operands.end(), in.indices.begin(), in.indices.end());
  const Val made = c.emit("index_put", operands, {{"accumulate", accumulate}});
  return {{in.lead.empty() ? c.transpose(made, in.back) : c.reshape(made, x.shape()), x.dtype}};
}

// Reads rows of the only indexed axis.
Values select_rows(Call& c, const TensorValue& x, const Subscript& in, const Values& given) {
  const auto axis = static_cast<int64_t>(in.lead.size());
  const Val index = c.wrapped_indices(given[axis], x.shape()[axis]);
  const Val flat = c.reshape(index, {index.type().elements()});
  const Val rows = c.emit("index_select", {x.value, flat}, {{"axis", axis}});
  return {{c.reshape(rows, in.seen()), x.dtype}};
}

Values index(Call& c) {
  const TensorValue x = c.tensor(0);
  const Values given = c.tensors(1);
  for (const auto& one : given) {
    if (one && is_mask(one)) {
      throw DynamicShapeError(support::str(
          "[", c.name(), "] Operations using aten::nonzero are unsupported because the operator's ",
          "output shape is determined at runtime. Use torch.where or masked_fill instead of a ",
          "boolean mask.", c.place()));
    }
  }
  const Subscript in = indexing(c, x, given);
  if (in.indices.size() == 2 && !in.lead.empty()) return select_rows(c, x, in, given);
  std::vector<Value*> operands{in.x};
  operands.insert(operands.end(), in.indices.begin(), in.indices.end());
  return {{c.reshape(c.emit("index", operands), in.seen()), x.dtype}};
}

// Emits x[mask] = value, or += value, as a select when the same value goes to every place.
Values put_where(Call& c, const TensorValue& x, const TensorValue& mask, Val value,
                 bool accumulate) {
  Shape one = value.type().shape;
  const auto rest = static_cast<size_t>(x.rank()) - mask.shape().size();
  while (one.size() > rest && one.front() == 1) one.erase(one.begin());
  if (one.size() > rest) {
    c.unsupported(
        "values for the places of a boolean mask are not supported, as their number is not known "
        "while the model is traced. Use torch.where.");
  }
  Shape shape = mask.shape();
  shape.resize(x.rank(), 1);
  const Val chosen = c.reshape(c.cast(mask.value, DType::kBool), shape), old = c.val(x.value);
  const Val put = c.broadcast(c.reshape(value, one), x.shape());
  return {{c.emit("select", {chosen, accumulate ? old + put : put, old}), x.dtype}};
}

Values index_put(Call& c) {
  const TensorValue x = c.tensor(0);
  const Values given = c.tensors(1);
  const Val value = c.cast(c.tensor("values").value, x.dtype);
  const bool accumulate = c.flag("accumulate", false);
  if (given.size() == 1 && given[0] && is_mask(given[0])) {
    return put_where(c, x, given[0], value, accumulate);
  }
  for (const auto& one : given) {
    if (one && is_mask(one)) {
      c.unsupported("a boolean mask beside other indices is not supported. Use torch.where.");
    }
  }
  return put(c, x, given, value, accumulate);
}

// Copies to the rows of one axis that the index names.
Values index_copy(Call& c) {
  const TensorValue x = c.tensor(0), index = c.tensor("index");
  const int64_t axis = c.axis(c.integer("dim"), x.rank());
  const TensorValue whole{c.reshape(x.value, at_least_a_vector(x.shape())), x.dtype};
  const int64_t count = index.value->type().elements();
  Values given(static_cast<size_t>(axis) + 1);
  given.back() = {c.reshape(index.value, {count}), index.dtype};
  Shape shape = whole.shape();
  shape[axis] = count;
  const Val source = c.reshape(c.cast(c.tensor("source").value, x.dtype), shape);
  const Values copied = put(c, whole, given, source, false);
  return {{c.reshape(copied[0].value, x.shape()), x.dtype}};
}

}  // namespace

void add_subscript_rules(Rules& r) {
  r.add("index.Tensor", index);
  r.add("index_put", index_put);
  r.add("index_copy", index_copy);
  r.add("_unsafe_index.Tensor", index);
  r.add("_index_put_impl", index_put);
}

}  // namespace poptorch::frontend
