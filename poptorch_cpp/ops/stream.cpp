// Data to and from the host and Streaming Memory, copies between IPUs, printing.
#include <algorithm>

#include "ir/module.hpp"
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

Type stream_type(const InferContext& c, bool to_device) {
  const auto& name = c.attr<std::string>("stream");
  const ir::HostStream* stream = c.module() ? c.module()->find_stream(name) : nullptr;
  if (!stream) c.fail(str("there is no stream '", name, "'."));
  if (stream->to_device != to_device) {
    c.fail(str("stream '", name, "' runs ", to_device ? "to the host." : "to the device."));
  }
  return stream->type;
}

Type buffer_type(const InferContext& c) {
  const auto& name = c.attr<std::string>("buffer");
  const ir::RemoteBuffer* buffer = c.module() ? c.module()->find_remote_buffer(name) : nullptr;
  if (!buffer) c.fail(str("there is no remote buffer '", name, "'."));
  return buffer->type;
}

// Returns the attributes of printing a tensor: PopXL's defaults.
std::vector<ir::AttrDef> printing() {
  return {{"title", AttrType::kString, std::string()},
          {"print_gradient", AttrType::kBool, false},
          at_least(0, {"summarise_threshold", AttrType::kInt, int64_t{1000}}),
          at_least(0, {"edge_items", AttrType::kInt, int64_t{3}}),
          at_least(0, {"max_line_width", AttrType::kInt, int64_t{75}}),
          within({"digits", AttrType::kInt, int64_t{8}}, 0, 32),
          {"float_format",
           AttrType::kString,
           std::string("auto"),
           {"auto", "fixed", "scientific", "none"}},
          {"separator", AttrType::kString, std::string(" ")},
          {"open_bracket", AttrType::kString, std::string("[")},
          {"close_bracket", AttrType::kString, std::string("]")}};
}

void add_host_ops(Registry& r) {
  const NoGradient none{"it transfers data into or out of the IPU"};
  r.add({.name = "host_load",
         .doc = "The next transfer of a host stream.",
         .inputs = {},
         .outputs = {"x"},
         .attrs = {{"stream", AttrType::kString}},
         .infer = [](const InferContext& c) { return std::vector{stream_type(c, true)}; },
         .grad = none,
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "HostLoad"});
  r.add({.name = "host_store",
         .doc = "x as the next transfer of a host stream.",
         .inputs = {"x"},
         .outputs = {},
         .attrs = {{"stream", AttrType::kString}},
         .infer =
             [](const InferContext& c) {
               require_type(c, 0, stream_type(c, false));
               return std::vector<Type>{};
             },
         .grad = none,
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "HostStore"});
  r.add({.name = "remote_load",
         .doc = "Row `row` of a remote buffer.",
         .inputs = {"row: i32"},
         .outputs = {"x"},
         .attrs = {{"buffer", AttrType::kString}},
         .infer =
             [](const InferContext& c) {
               require_one_element(c, 0);
               return std::vector{buffer_type(c)};
             },
         .grad = none,
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "RemoteLoad"});
  r.add({.name = "remote_store",
         .doc = "x into row `row` of a remote buffer.",
         .inputs = {"x", "row: i32"},
         .outputs = {},
         .attrs = {{"buffer", AttrType::kString}},
         .infer =
             [](const InferContext& c) {
               require_type(c, 0, buffer_type(c));
               require_one_element(c, 1);
               return std::vector<Type>{};
             },
         .grad = none,
         .cost = moves_data(),
         .side_effect = true,
         .popart_type = "RemoteStore"});
}

}  // namespace

void add_stream_ops(Registry& r) {
  add_host_ops(r);
  r.add({.name = "ipu_copy",
         .doc = "x on IPU `to`.",
         .role = Role::kCopy,
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = {within({"to", AttrType::kInt}, 0, ir::kMaxIpus - 1)},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) {
           // Ops that are not placed yet are on IPU 0.
           return g.emit("ipu_copy", {dy}, {{"to", int64_t{std::max(g.op().placement.ipu, 0)}}});
         }),
         .cost = moves_data(),
         .popart_type = "IpuCopy"});
  r.add({.name = "check_floats",
         .doc = "Ends the run with an error if x has NaNs and the operands `from` have none, or x "
                "has infinities and they have neither. For a comparison: if an operand has NaNs.",
         .inputs = {"x: float", "from: float*"},
         .outputs = {},
         .attrs = {{"op", AttrType::kString},
                   {"scope", AttrType::kString, std::string()},
                   {"line", AttrType::kString, std::string()},
                   {"comparison", AttrType::kBool, false}},
         .infer = nothing(),
         .grad = NoGradient{"it has no results"},
         .cost = moves_data(),
         .side_effect = true});
  r.add({.name = "check_indices",
         .doc = "Ends the run with an error if an index is not in [0, places).",
         .inputs = {"indices: int"},
         .outputs = {},
         .attrs = {at_least(0, {"places", AttrType::kInt}), {"op", AttrType::kString}},
         .infer = nothing(),
         .grad = NoGradient{"it has no results"},
         .cost = moves_data(),
         .side_effect = true});
  r.add({.name = "check_answer",
         .doc = "Ends the run with an error if the only element of x is not `answer`, with which "
                "the user's program took a branch at `line` while it was traced.",
         .inputs = {"x: bool"},
         .outputs = {},
         .attrs = {{"answer", AttrType::kBool}, {"line", AttrType::kString, std::string()}},
         .infer =
             [](const InferContext& c) {
               require_one_element(c, 0);
               return std::vector<Type>{};
             },
         .grad = NoGradient{"it has no results"},
         .cost = moves_data(),
         .side_effect = true});
  r.add({.name = "print_tensor",
         .doc = "x, printed on stderr when the program runs, and its gradient if requested. Above "
                "the threshold of elements (0: no threshold) it prints those at both ends of each "
                "axis. `digits` per element; 0 prints without alignment.",
         .inputs = {"x"},
         .outputs = {"y"},
         .attrs = printing(),
         .infer = same_as(0),
         .grad = grad1([](GradBuilder& g, Val dy) {
           if (!g.attr<bool>("print_gradient")) return dy;
           ir::Attrs attrs = g.op().attrs();
           attrs.set("title", g.attr<std::string>("title") + "_gradient");
           attrs.erase("print_gradient");
           return g.emit("print_tensor", {dy}, attrs);
         }),
         .cost = moves_data(),
         .passes = true,
         .side_effect = true,
         .popart_type = "PrintTensor"});
}

}  // namespace poptorch::ops
