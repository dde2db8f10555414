// Type, cost and gradient rules that many rows share.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "ir/op_def.hpp"

namespace poptorch::ops {

using ir::Attr;
using ir::AttrType;
using ir::Cost;
using ir::CostRule;
using ir::DType;
using ir::Floats;
using ir::GradBuilder;
using ir::GradRule;
using ir::InferContext;
using ir::InferRule;
using ir::Ints;
using ir::NoGradient;
using ir::Op;
using ir::OpDef;
using ir::Registry;
using ir::Role;
using ir::Shape;
using ir::Type;
using ir::Val;
using ir::Value;

InferRule same_as(size_t operand);
InferRule nothing();    // no results
InferRule as_stated();  // as the text or the front end says
// Operands of one dtype, broadcast together; `result` overrides the dtype (comparisons).
InferRule broadcast_of_operands(std::optional<DType> result = std::nullopt);
// Returns the broadcast of operands i and j alone, which have one dtype.
Type broadcast_pair(const InferContext& context, size_t i, size_t j);
void require_rank(const InferContext& context, size_t operand, int64_t at_least,
                  int64_t at_most = ir::kMaxRank);
// Fails unless operand i, if present, has this shape or type.
void require_shape(const InferContext& context, size_t operand, const Shape& shape);
void require_type(const InferContext& context, size_t operand, const Type& type);
void require_one_element(const InferContext& context, size_t operand);
// Sizes are computed in 128 bits, so that products of attributes do not overflow.
using Wide = __int128;
// Returns `size` as that of an axis; fails if no tensor has such an axis.
int64_t checked_size(const InferContext& context, Wide size);
int64_t checked_axis(const InferContext& context, int64_t axis, int64_t rank);
// Fails unless the axes are in range, ascending and different.
void checked_axes(const InferContext& context, const Ints& axes, int64_t rank);
// Returns the shape without `axes`, or with ones there.
Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdims);

CostRule per_element(double flops);          // of result 0
CostRule per_operand_element(double flops);  // of operand 0
CostRule moves_data();                       // no arithmetic
CostRule no_cost();                          // resolved at compile time
double bytes_of(const Op& op);               // operands and results, once each

// Returns `def` with a range for its number or the numbers of its list.
ir::AttrDef within(ir::AttrDef def, double least, double most);
ir::AttrDef at_least(double least, ir::AttrDef def);  // and at most kMaxElements

// Returns the attributes that plan an op on the matrix units: the type of partial sums and the
// share of a tile's memory (negative: the IPU's), with `more`. Half partials change values: see
// docs/explain/dtypes.md.
std::vector<ir::AttrDef> planned(std::vector<ir::AttrDef> more = {});
// Returns the attributes of these names that the op was given.
ir::Attrs given_attrs(const GradBuilder& g, std::initializer_list<const char*> names);
// Returns those that plan the op, for the ops of its gradient.
ir::Attrs plan_of(const GradBuilder& g);

// Belongs to ops that write state: written float16 and bfloat16 elements are rounded at random,
// with the same numbers in every replica.
inline const ir::AttrDef kStochasticRounding{"stochastic_rounding", AttrType::kBool, false};

// Computes the gradient of a one-operand op from dy.
GradRule grad1(std::function<Val(GradBuilder&, Val dy)> rule);
// Computes the gradients of a broadcasting two-operand op; each is summed to its operand's shape.
GradRule grad2(std::function<Val(GradBuilder&, Val dy)> a,
               std::function<Val(GradBuilder&, Val dy)> b);
// For functions that are flat almost everywhere: zero for every dy, including infinities.
Val no_slope(GradBuilder& g, Val dy);
// Computes `rule` in f32 if the op is of halves: each gradient is rounded once, as by torch's
// kernels, and squares do not overflow.
GradRule in_f32(GradRule rule);
GradRule grad1_in_f32(std::function<Val(GradBuilder&, Val dy)> rule);
// Returns `a` where the condition holds, `b` elsewhere.
Val select(Val condition, Val a, Val b);
Val reshape_to(GradBuilder& g, Val x, const Shape& shape);
Val broadcast_to(GradBuilder& g, Val x, const Shape& shape);
// Restores the axes that a reduction dropped, as ones.
Val restore_axes(GradBuilder& g, Val x, const Shape& full, const Ints& axes);

}  // namespace poptorch::ops
