// aten rows of embedding bags: sums and means of a table's rows per bag.
#include "frontends/torch/aten/kinds.hpp"
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

enum Mode : uint8_t { kSum, kMean, kMax };

// Describes which indices belong to each bag.
struct Bags {
  int64_t indices = 0, count = 0;
  int64_t size = -1;  // of each bag, if all are known to be of one size
  Val number = {};    // of the bag of each index
};

// Returns the size of all bags, or -1 if it is unknown or varies. torch makes bags of one size of a
// matrix of indices; they are summed without an index_add.
int64_t known_size(const std::optional<Ints>& offsets, int64_t indices, int64_t count) {
  if (!offsets || count == 0 || indices % count != 0) return -1;
  for (int64_t i = 0; i < static_cast<int64_t>(offsets->size()); ++i) {
    if (offsets->at(static_cast<size_t>(i)) != i * (indices / count)) return -1;
  }
  return indices / count;
}

Bags bags_of(Call& c) {
  const size_t argument = c.index_of("offsets");
  const TensorValue offsets = c.tensor(argument);
  const bool has_end = c.flag("include_last_offset", false);
  Bags bags;
  bags.indices = c.tensor("indices").value->type().elements();
  bags.count = offsets.shape().at(0) - (has_end ? 1 : 0);
  bags.size = known_size(c.known(argument), bags.indices, bags.count);
  if (bags.size >= 0) {
    const Val numbers = c.emit("iota", {}, {{"dtype", DType::kI32}, {"size", bags.count}});
    const Val column = c.reshape(numbers, {bags.count, 1});
    bags.number = c.reshape(c.broadcast(column, {bags.count, bags.size}), {bags.indices});
    return bags;
  }
  // The number of bags begun at an index is the count of offsets up to it. Empty bags after the
  // last index begin in one extra place.
  const Val begin = c.slice(whole_numbers(c, offsets, "offsets"), 0, 0, bags.count);
  const Val ones = c.full({bags.count}, DType::kI32, 1);
  const Val begun = c.emit("index_add", {c.full({bags.indices + 1}, DType::kI32, 0), begin, ones},
                           {{"axis", int64_t{0}}});
  const Val number = c.emit("cumsum", {begun}, {{"axis", int64_t{0}}}) + -1.0;
  bags.number = c.slice(number, 0, 0, bags.indices);
  return bags;
}

// Returns the sums of rows [indices, ...] over each bag.
Val sums(Call& c, const Bags& bags, Val rows) {
  Shape shape = rows.type().shape;
  shape.front() = bags.count;
  if (bags.size >= 0) {
    Shape apart = shape;
    apart.insert(apart.begin() + 1, bags.size);
    return c.emit("sum", {c.reshape(rows, apart)}, {{"axes", Ints{1}}, {"keepdims", false}});
  }
  return c.emit("index_add", {c.full(shape, rows.type().dtype, 0), bags.number, rows},
                {{"axis", int64_t{0}}});
}

Values embedding_bag(Call& c) {
  const int64_t mode = c.integer("mode", kSum);
  const bool by_frequency = c.differentiates() && c.flag("scale_grad_by_freq", false);
  if (mode == kMax || by_frequency) return {};
  const TensorValue weight = c.tensor("weight"), given = c.tensor("indices");
  const Bags bags = bags_of(c);
  const Val indices = c.reshape(whole_numbers(c, given, "indices"), {bags.indices});
  const int64_t padding = c.integer("padding_idx", -1);
  Val rows = c.emit("embedding", {weight.value, indices}, {{"padding_index", padding}});
  const Shape column{bags.indices, 1};
  const TensorValue given_shares = c.tensor("per_sample_weights");
  Val counts = c.full({bags.indices}, rows.type().dtype, 1), shares;
  if (given_shares) shares = c.reshape(c.cast(given_shares.value, rows.type().dtype), column);
  if (padding >= 0) {
    const Val own = c.scalar(DType::kI32, static_cast<double>(padding));
    const Val counted = c.emit("ne", {indices, own}), mask = c.reshape(counted, column);
    counts = c.cast(counted, rows.type().dtype);
    rows = c.only_where(c.broadcast(mask, rows.type().shape), rows);
    if (given_shares) shares = c.only_where(mask, shares);
  }
  if (given_shares) rows = rows * shares;
  const bool all_count = padding < 0 && bags.size >= 0;
  const Val sizes =
      all_count ? c.full({bags.count}, rows.type().dtype, bags.size) : sums(c, bags, counts);
  Val y = sums(c, bags, rows);
  if (mode == kMean) {
    const Val one = c.scalar(sizes.type().dtype, 1);
    y = y / c.reshape(c.emit("maximum", {sizes, one}), {bags.count, 1});
  }
  const Val none = c.full({bags.count}, DType::kI32, 0);
  return {{y, weight.dtype},
          {bags.number, given.dtype},
          {c.cast(sizes, DType::kI32), given.dtype},
          {none, given.dtype}};
}

}  // namespace

void add_embedding_bag_rules(Rules& r) {
  for (const char* op : {"_embedding_bag", "_embedding_bag_forward_only"}) {
    r.compose(op, embedding_bag);
  }
}

}  // namespace poptorch::frontend
