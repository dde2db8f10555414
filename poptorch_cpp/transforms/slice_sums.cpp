#include "transforms/slice_sums.hpp"

#include <algorithm>
#include <cmath>

#include "ir/graph.hpp"
#include "transforms/rewrite.hpp"

namespace poptorch::transforms {
namespace {

using ir::Ints;
using ir::Op;
using ir::Value;

struct Piece {
  size_t part;  // index among the parts
  const Op* insertion;
  const Ints &starts, &stops, &steps;
};
using Pieces = std::vector<const Piece*>;

bool is_insertion_into_zeros(const Op* op) {
  if (!op || !op->is("insert_slice")) return false;
  const auto splat = splat_of(op->operand(0));
  return splat && *splat == 0.0 && !std::signbit(*splat);
}

std::vector<Piece> pieces_of(const std::vector<Value*>& parts) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Op* op = parts[i]->producer();
    if (!is_insertion_into_zeros(op)) continue;
    pieces.push_back(
        {i, op, op->attr<Ints>("starts"), op->attr<Ints>("stops"), op->attr<Ints>("steps")});
  }
  return pieces;
}

const ir::Shape& shape_of(const Pieces& pieces) {
  return pieces[0]->insertion->result()->type().shape;
}

// Returns the only axis along which any piece is not the whole tensor; -1 if there are several.
int64_t only_axis(const Pieces& pieces) {
  const ir::Shape& shape = shape_of(pieces);
  int64_t axis = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool whole = std::all_of(pieces.begin(), pieces.end(), [&](const Piece* p) {
      return p->starts[d] == 0 && p->stops[d] == shape[d] && p->steps[d] == 1;
    });
    if (whole) continue;
    if (axis >= 0) return -1;
    axis = static_cast<int64_t>(d);
  }
  return axis;
}

bool overlap(const Piece& a, const Piece& b) {
  for (size_t d = 0; d < a.starts.size(); ++d) {
    if (a.stops[d] <= b.starts[d] || b.stops[d] <= a.starts[d]) return false;
    const bool same_step = a.steps[d] == b.steps[d];
    if (same_step && (a.starts[d] - b.starts[d]) % a.steps[d] != 0) return false;
  }
  return true;
}

Pieces sorted_along(Pieces pieces, size_t axis) {
  std::stable_sort(pieces.begin(), pieces.end(), [axis](const Piece* a, const Piece* b) {
    return a->starts[axis] < b->starts[axis];
  });
  return pieces;
}

bool are_apart(const Pieces& sorted, size_t axis) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->starts[axis] < sorted[i - 1]->stops[axis]) return false;
  }
  return true;
}

// Returns whether the pieces leave no element along the axis.
bool fill(const Pieces& sorted, size_t axis) {
  int64_t end = 0;
  for (const Piece* p : sorted) {
    if (p->starts[axis] != end || p->steps[axis] != 1) return false;
    end = p->stops[axis];
  }
  return end == shape_of(sorted)[axis];
}

// Returns the pieces that overlap none before them.
Pieces chosen(const Pieces& pieces) {
  const int64_t axis = only_axis(pieces);
  if (axis >= 0) {
    const auto at = static_cast<size_t>(axis);
    if (are_apart(sorted_along(pieces, at), at)) return pieces;
  }
  Pieces apart;
  for (const Piece* piece : pieces) {
    const bool free = std::none_of(apart.begin(), apart.end(),
                                   [&](const Piece* other) { return overlap(*piece, *other); });
    if (free) apart.push_back(piece);
  }
  return apart;
}

Value* join(ir::Builder& builder, const Pieces& pieces) {
  const int64_t axis = only_axis(pieces);
  if (axis >= 0) {
    const Pieces sorted = sorted_along(pieces, static_cast<size_t>(axis));
    if (fill(sorted, static_cast<size_t>(axis))) {
      std::vector<Value*> sources;
      for (const Piece* p : sorted) sources.push_back(p->insertion->operand(1));
      return builder.value("concat", std::move(sources), {{"axis", axis}});
    }
  }
  Value* joined = pieces[0]->insertion->result();
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Op& insertion = *pieces[i]->insertion;
    joined = builder.value("insert_slice", {joined, insertion.operand(1)}, insertion.attrs());
  }
  return joined;
}

}  // namespace

void join_slices(ir::Builder& builder, std::vector<Value*>& parts) {
  const std::vector<Piece> all = pieces_of(parts);
  if (all.size() < 2) return;
  Pieces pieces;
  for (const Piece& piece : all) pieces.push_back(&piece);
  pieces = chosen(pieces);
  if (pieces.size() < 2) return;
  parts[pieces[0]->part] = join(builder, pieces);
  std::vector<bool> joined(parts.size(), false);
  for (size_t i = 1; i < pieces.size(); ++i) joined[pieces[i]->part] = true;
  size_t kept = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!joined[i]) parts[kept++] = parts[i];
  }
  parts.resize(kept);
}

}  // namespace poptorch::transforms
