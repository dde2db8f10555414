// Collectives over groups of replicas: a group is `group_size` replicas `group_stride` apart, all
// of them if the size is 0. Reductions follow the order of the replicas.
#include <functional>

#include "ir/module.hpp"
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

std::vector<ir::AttrDef> group(std::vector<ir::AttrDef> more) {
  more.push_back(within({"group_size", AttrType::kInt, int64_t{0}}, 0, ir::kMaxReplicas));
  more.push_back(within({"group_stride", AttrType::kInt, int64_t{1}}, 1, ir::kMaxReplicas));
  return more;
}

ir::Attrs group_of(const GradBuilder& g, const char* op) {
  ir::Attrs attrs{{"group_size", g.attr<int64_t>("group_size")},
                  {"group_stride", g.attr<int64_t>("group_stride")}};
  if (op) attrs.set("op", std::string(op));
  return attrs;
}

// If group_size is 0, the IR does not know the number of replicas in a group, so results whose
// shape depends on it state the size.
const ir::AttrDef kReduction{
    "op",
    AttrType::kString,
    std::string("sum"),
    {"sum", "mean", "mul", "min", "max", "and", "or", "square_add", "local"}};

// Returns the sum, or another reduction, of a value over the group: its gradient rules see x's
// shape.
Val over_group(const GradBuilder& g, const Val& value, const char* reduction) {
  return g.emit("all_reduce", {value}, group_of(g, reduction));
}

// Returns 1 where both are equal, else 0, in the element type of `a`.
Val equal(const GradBuilder& g, const Val& a, const Val& b) {
  return g.emit("cast", {g.emit("eq", {a, b})}, {{"dtype", a.type().dtype}});
}

// Returns the product of x over the other replicas of the group, where some may be 0.
Val product_of_others(const GradBuilder& g, const Val& x) {
  const Val zero{g.builder().scalar(x.type().dtype, 0), x.builder};
  const Val is_zero = equal(g, x, zero);
  const Val nonzero = x + is_zero;
  const Val others = over_group(g, nonzero, "mul") / nonzero;
  const Val zeros = over_group(g, is_zero, "sum") - is_zero;  // among the others
  return others * equal(g, zeros, zero);
}

// Returns the gradient of a reduction over a group. Every replica has a separate loss, and
// gradients are those of the losses' sum. `total` is the gradient by the result of the reduction,
// `reduced`; both have x's shape. Values that are tied for the least or largest share the gradient.
Val of_reduction(const GradBuilder& g, const Val& total, const std::function<Val()>& reduced) {
  const auto& reduction = g.attr<std::string>("op");
  if (reduction == "sum" || reduction == "local") return total;
  if (reduction == "square_add") return total * g.x(0) * 2.0;
  if (reduction == "mul") return total * product_of_others(g, g.x(0));
  const Val chosen = equal(g, g.x(0), reduced());
  return total * chosen / over_group(g, chosen, "sum");
}

bool is_logical(const GradBuilder& g) {
  const auto& reduction = g.attr<std::string>("op");
  return reduction == "and" || reduction == "or";
}

std::vector<Value*> all_reduce_gradient(GradBuilder& g) {
  if (is_logical(g)) return {nullptr};
  const auto& reduction = g.attr<std::string>("op");
  if (reduction == "local") return {g.dy(0)};
  if (reduction == "mean") return {over_group(g, g.dy(0), "mean")};
  return {of_reduction(g, over_group(g, g.dy(0), "sum"), [&] { return g.y(0); })};
}

std::vector<Value*> reduce_scatter_gradient(GradBuilder& g) {
  if (is_logical(g)) return {nullptr};
  const auto gathered = [&](const Val& part) {
    ir::Attrs attrs = group_of(g, nullptr);
    attrs.set("grad_op", std::string("sum"));
    return g.emit("all_gather", {part}, attrs);
  };
  const Val total = gathered(g.dy(0));
  if (g.attr<std::string>("op") != "mean") {
    return {of_reduction(g, total, [&] { return gathered(g.y(0)); })};
  }
  return {total / static_cast<double>(g.attr<int64_t>("group_size"))};
}

// Exchanges halves unchanged if only the exchange rounds.
GradRule in_f32_unless_sum(GradRule rule) {
  return [plain = rule, wide = in_f32(rule)](GradBuilder& g) {
    const auto& reduction = g.attr<std::string>("op");
    const bool computes = reduction == "mul" || reduction == "square_add";
    return computes ? wide(g) : plain(g);
  };
}

// Requires a first axis with a row for each replica of the group.
void require_row_of_each(const InferContext& c) {
  const int64_t size = c.attr<int64_t>("group_size");
  const Type& x = c.operand(0);
  if (size >= 1 && !x.shape.empty() && x.shape[0] == size) return;
  c.fail(support::str("the first axis of x ", x, " must have group_size = ", size, " elements."));
}

}  // namespace

void add_collective_ops(Registry& r) {
  r.add({.name = "all_reduce",
         .doc = "The sum (or another reduction; local: x itself) of x over the replicas of each "
                "group, on each replica.",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({kReduction}),
         .infer = same_as(0),
         .grad = in_f32_unless_sum(all_reduce_gradient),
         .cost = per_element(1),
         .side_effect = true,
         .popart_type = "ReplicatedAllReduce"});
  r.add({.name = "all_gather",
         .doc = "x of every replica of the group, stacked along a new first axis. The gradient is "
                "the replica's row of its gradient (grad_op=local), or of the sum of the gradients "
                "of all (grad_op=sum).",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({{"grad_op", AttrType::kString, std::string("local"), {"local", "sum"}}}),
         .infer =
             [](const InferContext& c) {
               int64_t size = c.attr<int64_t>("group_size");
               if (size < 1) c.fail("group_size must be given.");
               Type out = c.operand(0);
               out.shape.insert(out.shape.begin(), size);
               return std::vector{out};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           Val mine =
               g.emit("reduce_scatter", {dy}, group_of(g, g.attr<std::string>("grad_op").c_str()));
           return reshape_to(g, mine, g.x(0).type().shape);
         }),
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "ReplicatedAllGather"});
  r.add({.name = "reduce_scatter",
         .doc = "Row i of the reduction of x over the group, on its replica i.",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({kReduction}),
         .infer =
             [](const InferContext& c) {
               require_row_of_each(c);
               Type out = c.operand(0);
               out.shape.erase(out.shape.begin());
               return std::vector{out};
             },
         .grad = in_f32_unless_sum(reduce_scatter_gradient),
         .cost = per_operand_element(1),
         .side_effect = true,
         .popart_type = "ReplicatedReduceScatter"});
  r.add({.name = "all_to_all",
         .doc = "Row i of x goes to replica i of the group; row j of y comes from replica j.",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({}),
         .infer =
             [](const InferContext& c) {
               require_row_of_each(c);
               return std::vector{c.operand(0)};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           return g.emit("all_to_all", {dy}, group_of(g, nullptr));
         }),
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "ReplicatedAllToAll"});
}

}  // namespace poptorch::ops
