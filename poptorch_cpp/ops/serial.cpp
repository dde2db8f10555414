#include "ops/serial.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace poptorch::ops {
namespace {

double size_at(const Shape& shape, int64_t axis) {
  const int64_t rank = std::ssize(shape);
  if (axis < 0) axis += rank;
  return axis < 0 || axis >= rank ? 1 : static_cast<double>(shape[static_cast<size_t>(axis)]);
}

// The sums over alignments of a frame need those of the frame before.
double frames(const Shape& shape) { return size_at(shape, 0); }

// The dimension of an order or scan is one of the arguments, which are text: the longest is
// assumed.
double longest(const Shape& shape) {
  int64_t size = 1;
  for (int64_t other : shape) size = std::max(size, other);
  return static_cast<double>(size);
}

double scan(const Shape& shape) { return scan_steps(longest(shape)); }
double order(const Shape& shape) { return sort_steps(longest(shape)); }

// A step finds the pivot or the norm of a column, and one changes the columns after it.
double columns(const Shape& shape) { return 2 * std::min(size_at(shape, -1), size_at(shape, -2)); }

// Reflections make the matrix tridiagonal or bidiagonal; then about two rotations of all columns
// find each value.
double columns_and_values(const Shape& shape) { return 2 * columns(shape); }

// Rows of the solution follow from those before them.
double substitutions(const Shape& shape) { return size_at(shape, -1); }

using Steps = double (*)(const Shape&);

const std::unordered_map<std::string_view, Steps>& generic_table() {
  static const std::unordered_map<std::string_view, Steps> table = {
      {"_linalg_det", columns},
      {"_linalg_eigh", columns_and_values},
      {"_linalg_eigvals", columns_and_values},
      {"_linalg_slogdet", columns},
      {"_linalg_solve_ex", columns},
      {"_linalg_svd", columns_and_values},
      {"cholesky", columns},
      {"cholesky_inverse", substitutions},
      {"cholesky_solve", substitutions},
      {"ctc_loss", frames},
      {"cummax", scan},
      {"cummin", scan},
      {"geqrf", columns},
      {"kthvalue", order},
      {"linalg_cholesky_ex", columns},
      {"linalg_eig", columns_and_values},
      {"linalg_householder_product", columns},
      {"linalg_inv_ex", columns},
      {"linalg_ldl_factor_ex", columns},
      {"linalg_ldl_solve", substitutions},
      {"linalg_lu", columns},
      {"linalg_lu_factor_ex", columns},
      {"linalg_lu_solve", substitutions},
      {"linalg_pinv", columns_and_values},
      {"linalg_qr", columns},
      {"linalg_solve_triangular", substitutions},
      {"logcumsumexp", scan},
      {"median", order},
      {"mode", order},
      {"nanmedian", order},
      {"ormqr", columns},
      {"triangular_solve", substitutions},
  };
  return table;
}

// Returns "ctc_loss" of "aten::ctc_loss.Tensor".
std::string_view function_of(std::string_view schema) {
  const size_t space = schema.find("::");
  if (space != std::string_view::npos) schema.remove_prefix(space + 2);
  return schema.substr(0, schema.find('.'));
}

}  // namespace

double scan_steps(double length) { return length > 2 ? std::ceil(std::log2(length)) : 1; }

double sort_steps(double length) {
  const double merges = scan_steps(length);
  return merges * (merges + 1) / 2;
}

CostRule along_axis(CostRule rule, double (*steps)(double length)) {
  return [rule = std::move(rule), steps](const Op& op) {
    Cost cost = rule(op);
    cost.row = size_at(op.operand(0)->type().shape, op.attr<int64_t>("axis"));
    cost.steps = steps(cost.row);
    return cost;
  };
}

double generic_steps(const Op& op) {
  const auto found = generic_table().find(function_of(op.attr<std::string>("schema")));
  if (found == generic_table().end() || op.operand_count() == 0 || !op.operand(0)) return 1;
  return std::max(1.0, found->second(op.operand(0)->type().shape));
}

}  // namespace poptorch::ops
