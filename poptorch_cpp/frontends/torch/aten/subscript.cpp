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

// Holds index tensors broadcast to one shape, and x with the indexed axes in front.
struct Subscript {
  Val x;
  std::vector<Value*> indices;
  Ints back;          // the permutation that undoes that of x
  Shape index_shape;  // of the broadcast indices
  int64_t first = 0;  // the first of the indexed axes in x, if they were adjacent; else 0
};

Subscript indexing(Call& c, const TensorValue& x, const Values& given) {
  Subscript result;
  Ints front, rest;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const bool indexed = i < given.size() && given[i];
    (indexed ? front : rest).push_back(axis);
    if (!indexed) continue;
    const auto joint = ir::broadcast(result.index_shape, given[i].shape());
    if (!joint) c.fail("the index tensors do not broadcast.");
    result.index_shape = *joint;
  }
  const bool adjacent = front.back() - front.front() + 1 == static_cast<int64_t>(front.size());
  result.first = adjacent ? front.front() : 0;
  for (const int64_t axis : front) {
    const Val index = c.wrapped_indices(given[axis], x.shape()[axis]);
    result.indices.push_back(c.broadcast(index, result.index_shape));
  }
  Ints permutation = front;
  permutation.insert(permutation.end(), rest.begin(), rest.end());
  result.back.resize(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.back[permutation[i]] = static_cast<int64_t>(i);
  }
  result.x = c.transpose(x.value, permutation);
  return result;
}

// Returns the permutation from [index..., rest...] to where torch puts the index dimensions.
Ints placed(const Subscript& in, int64_t rank) {
  const auto count = static_cast<int64_t>(in.index_shape.size());
  Ints permutation;
  for (int64_t i = 0; i < in.first; ++i) permutation.push_back(count + i);
  for (int64_t i = 0; i < count; ++i) permutation.push_back(i);
  for (int64_t i = count + in.first; i < rank; ++i) permutation.push_back(i);
  return permutation;
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
  std::vector<Value*> operands{in.x};
  operands.insert(operands.end(), in.indices.begin(), in.indices.end());
  const Val picked = c.emit("index", operands);
  return {{c.transpose(picked, placed(in, picked.type().rank())), x.dtype}};
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
  const Subscript in = indexing(c, x, given);
  Shape shape = in.index_shape;
  shape.insert(shape.end(), in.x.type().shape.begin() + static_cast<int64_t>(in.indices.size()),
               in.x.type().shape.end());
  // The value broadcasts to the indexed shape as torch shows it; transpose to [index..., rest...].
  const auto rank = static_cast<int64_t>(shape.size());
  const Ints seen = placed(in, rank);
  Shape seen_shape(rank);
  Ints back(rank);
  for (int64_t i = 0; i < rank; ++i) {
    seen_shape[i] = shape[seen[i]];
    back[seen[i]] = i;
  }
  std::vector<Value*> operands{in.x, c.transpose(c.broadcast(value, seen_shape), back)};
  operands.insert(operands.end(), in.indices.begin(), in.indices.end());
  const Val put = c.emit("index_put", operands, {{"accumulate", accumulate}});
  return {{c.transpose(put, in.back), x.dtype}};
}

}  // namespace

void add_subscript_rules(Rules& r) {
  r.add("index.Tensor", index);
  r.add("index_put", index_put);
  r.add("_unsafe_index.Tensor", index);
  r.add("_index_put_impl", index_put);
}

}  // namespace poptorch::frontend
