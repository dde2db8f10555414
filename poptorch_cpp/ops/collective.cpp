// Collectives over groups of replicas: a group is `group_size` replicas `group_stride` apart, all
// of them when the size is 0. Reduced in the order of the replicas.
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

// The number of replicas in a group is not the IR's to know where group_size is 0, so results whose
// shape depends on it state the size.
const ir::AttrDef kReduction{"op",
                             AttrType::kString,
                             std::string("sum"),
                             {"sum", "mean", "mul", "min", "max", "and", "or", "square_add"}};

}  // namespace

void add_collective_ops(Registry& r) {
  r.add({.name = "all_reduce",
         .doc = "The sum (or other reduction) of x over the replicas of each group, on each.",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({kReduction}),
         .infer = same_as(0),
         .grad =
             [](GradBuilder& g) {
               const auto& reduction = g.attr<std::string>("op");
               if (reduction != "sum" && reduction != "mean") return std::vector<Value*>{nullptr};
               return std::vector<Value*>{
                   g.emit("all_reduce", {g.dy(0)}, group_of(g, reduction.c_str()))};
             },
         .cost = per_element(1),
         .side_effect = true,
         .popart_type = "ReplicatedAllReduce"});
  r.add({.name = "all_gather",
         .doc = "x of every replica of the group, stacked along a new first axis.",
         .role = Role::kCollective,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = group({}),
         .infer =
             [](const InferContext& c) {
               int64_t size = c.attr<int64_t>("group_size");
               if (size < 1) c.fail("group_size must be given.");
               Type out = c.operand(0);
               out.shape.insert(out.shape.begin(), size);
               return std::vector{out};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           Val mine = g.emit("reduce_scatter", {dy}, group_of(g, "sum"));
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
               int64_t size = c.attr<int64_t>("group_size");
               Type out = c.operand(0);
               if (size < 1 || out.shape.empty() || out.shape[0] != size) {
                 c.fail(support::str("the first axis of x ", c.operand(0),
                                     " must have group_size = ", size, " elements."));
               }
               out.shape.erase(out.shape.begin());
               return std::vector{out};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           return g.emit("all_gather", {dy}, group_of(g, nullptr));
         }),
         .cost = per_operand_element(1),
         .side_effect = true,
         .popart_type = "ReplicatedReduceScatter"});
}

}  // namespace poptorch::ops
