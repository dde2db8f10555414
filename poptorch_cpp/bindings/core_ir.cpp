// A module owns its graphs, ops and values; every handle keeps the module alive.
#include "bindings/core_ir.hpp"

#include <pybind11/stl.h>

#include <map>
#include <tuple>

#include "bindings/numpy.hpp"
#include "bindings/text.hpp"
#include "ir/builder.hpp"
#include "ir/module.hpp"
#include "ir/op_def.hpp"
#include "ir/reorder.hpp"
#include "ir/roles.hpp"
#include "ops/all_ops.hpp"
#include "ops/custom_ops.hpp"
#include "support/strings.hpp"
#include "transforms/autodiff.hpp"
#include "transforms/returned_inputs.hpp"

// An op owns its results and cannot be copied; pybind11 cannot see that through std::vector.
template <>
struct pybind11::detail::is_copy_constructible<poptorch::ir::Op> : std::false_type {};

namespace poptorch::bindings {
namespace {

using PyType = std::pair<Text, ir::Shape>;
using support::str;

constexpr auto kOwned = py::return_value_policy::reference_internal;

ir::DType dtype_of(const std::string& name) {
  const auto dtype = ir::dtype_from_name(name);
  if (!dtype) throw support::UserError(str("[ir] there is no element type '", name, "'."));
  return *dtype;
}

ir::Type type_of(const PyType& type) {
  const std::string defect = ir::defect_of(type.second);
  if (!defect.empty()) throw support::UserError(str("[ir] ", defect));
  return {dtype_of(type.first), type.second};
}
PyType py_type(const ir::Type& type) { return {{std::string(ir::name(type.dtype))}, type.shape}; }

ir::Literal literal_of(const py::array& array, const std::string& dtype) {
  ir::Type type{dtype_of(dtype), ir::Shape(array.shape(), array.shape() + array.ndim())};
  const py::array dense = checked(array, type, "a constant");
  const auto* data = bytes_of(dense);
  return {type, std::vector<std::byte>(data, data + type.bytes())};
}

// Converts a Python value to the attribute type that the op's row names.
ir::Attr attr_of(const py::handle& value, ir::AttrType type) {
  switch (type) {
    case ir::AttrType::kBool:
      return value.cast<bool>();
    case ir::AttrType::kInt:
      return value.cast<int64_t>();
    case ir::AttrType::kFloat:
      return value.cast<double>();
    case ir::AttrType::kString:
      return value.cast<Text>().value;
    case ir::AttrType::kDType:
      return dtype_of(value.cast<Text>());
    case ir::AttrType::kInts:
      return value.cast<ir::Ints>();
    case ir::AttrType::kFloats:
      return value.cast<ir::Floats>();
    case ir::AttrType::kStrings:
      return value.cast<ir::Strings>();
    case ir::AttrType::kGraph:
      return ir::GraphRef{value.cast<ir::Graph&>().name()};
    case ir::AttrType::kLiteral:
      break;
  }
  throw support::InternalError("[ir] constants are made by Graph.constant.");
}

ir::Attrs attrs_of(const ir::OpDef& def, const py::dict& given) {
  ir::Attrs attrs;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<Text>(key).value;
    const ir::AttrDef* row = def.find_attr(name);
    if (!row) {
      throw support::InternalError(str("[ir] op '", def.name, "' has no attribute '", name, "'."));
    }
    try {
      attrs.set(name, attr_of(value, row->type));
    } catch (const py::cast_error&) {
      throw support::UserError(str("[", def.name, "] attribute '", name, "' must be ",
                                   ir::name(row->type), " but is ", ascii_of(value), "."));
    }
  }
  return attrs;
}

ir::Builder builder_of(ir::Graph& graph, int ipu, bool io_tiles, const Text& scope) {
  if (ipu < -1 || ipu >= ir::kMaxIpus) {
    throw support::UserError(
        str("[ir] there is no IPU ", ipu, ". Choose one from 0 to ", ir::kMaxIpus - 1, "."));
  }
  ir::Builder builder(graph);
  builder.placement.ipu = ipu;
  builder.placement.io_tiles = io_tiles;
  builder.scope = scope.value;
  return builder;
}

ir::Op* emit(ir::Graph& graph, const Text& name, const std::vector<ir::Value*>& operands,
             const py::dict& attrs, int ipu, bool io_tiles, const Text& scope) {
  return builder_of(graph, ipu, io_tiles, scope)
      .emit(name.value, operands, attrs_of(graph.module().registry().get(name.value), attrs));
}

ir::Op* emit_custom(ir::Graph& graph, const std::tuple<Text, Text, int64_t>& id,
                    const Text& attributes, const std::vector<ir::Value*>& operands, int ipu,
                    bool io_tiles, const Text& scope) {
  ir::Builder builder = builder_of(graph, ipu, io_tiles, scope);
  const auto& [domain, name, version] = id;
  return ops::emit_custom(builder, {domain, name, version}, attributes, operands);
}

void expand_call(ir::Graph& graph, uint64_t id) {
  for (ir::Op* op : graph.ops()) {
    if (op->id() != id || op->role() != ir::Role::kCall) continue;
    const ir::Graph* called = graph.module().find_graph(ir::body_of(*op).name());
    const std::vector<ir::Value*> found = ir::copy_ops(*called, graph, op->operands(), op);
    for (size_t i = 0; i < found.size(); ++i) op->result(i)->replace_all_uses_with(found[i]);
    graph.erase(op);
    return;
  }
  throw support::UserError(str("[ir] graph @", graph.name(), " has no call ", id, "."));
}

ir::Value* give_memory(ir::Graph& graph, ir::Value& value, const Text& slot) {
  ir::Op* place = value.producer() ? value.producer()->next() : graph.first();
  ir::Builder builder(graph, place);
  ir::Value* memory = builder.variable(*graph.module().find_state(slot.value));
  value.replace_all_uses_with(memory);
  builder.emit("assign", {memory, &value});
  return memory;
}

ir::Op* return_inputs(ir::Op& op, const Text& name, ir::Graph& body,
                      const std::vector<ir::Value*>& operands,
                      const std::vector<std::pair<size_t, ir::Value*>>& left) {
  std::vector<transforms::LeftInput> inputs;
  for (const auto& [index, value] : left) inputs.push_back({index, value});
  return transforms::return_inputs(op, name.value, body, operands, inputs);
}

void bind_value_and_op(py::module_& m) {
  py::class_<ir::Value, std::unique_ptr<ir::Value, py::nodelete>>(m, "Value", "A value of a graph.")
      .def_property_readonly("type", [](const ir::Value& v) { return py_type(v.type()); })
      .def_property("name", &ir::Value::name,
                    [](ir::Value& v, const Text& name) { v.set_name(name.value); })
      .def_property_readonly("by_reference", &ir::Value::by_reference)
      .def_property_readonly("index", &ir::Value::index)
      .def_property_readonly("producer", &ir::Value::producer, kOwned);
  py::class_<ir::Op, std::unique_ptr<ir::Op, py::nodelete>>(m, "Op", "An op of a graph.")
      .def_property_readonly("id", &ir::Op::id)
      .def_property_readonly("name", &ir::Op::name)
      .def_property_readonly("popart_type", [](const ir::Op& op) { return op.def().popart_type; })
      .def_property_readonly("scope", [](const ir::Op& op) { return op.scope.text(); })
      .def_property_readonly("labels", [](const ir::Op& op) { return op.labels.text(); })
      .def_property_readonly("attrs",
                             [](const ir::Op& op) {
                               std::map<std::string, std::string> texts;
                               for (const auto& [name, value] : op.attrs()) {
                                 texts[name.text()] = ir::attr_text(value);
                               }
                               return texts;
                             })
      .def_property_readonly("ipu", [](const ir::Op& op) { return op.placement.ipu; })
      .def_property_readonly(
          "cost",
          [](const ir::Op& op) {
            const ir::Cost cost = op.def().cost(op);
            return std::make_tuple(cost.flops, cost.bytes, cost.matrix_unit);
          },
          "The work of one execution: FLOPs, bytes of operands and results, and whether it runs on "
          "the matrix units.")
      .def_property_readonly("stage", [](const ir::Op& op) { return op.placement.stage; })
      .def_property_readonly(
          "bodies",
          [](const ir::Op& op) {
            std::vector<ir::Graph*> bodies;
            for (size_t i = 0; i < op.def().bodies.size(); ++i)
              bodies.push_back(op.graph().module().find_graph(ir::body_name(op, i)));
            return bodies;
          },
          kOwned, "The graphs that the op runs; a branch runs the first if its condition is true.")
      .def(
          "set_gradient",
          [](ir::Op& op, const ir::Graph* graph) {
            op.set_attr("gradient", ir::GraphRef{graph ? graph->name() : ir::Symbol()});
          },
          "For a call: the graph that autodiff calls instead of differentiating the called graph. "
          "None: autodiff differentiates the called graph.",
          py::arg("graph").none(true))
      .def_property_readonly("gradient",
                             [](const ir::Op& op) { return ir::gradient_of(op).text(); })
      .def("return_inputs", &return_inputs, kOwned,
           "Replaces a call or loop by one that runs a copy of `body`, called `name`. It also "
           "returns the final values of the inputs in `left`: (index of the input, value of "
           "`body`). Returns the new op.",
           py::arg("name"), py::arg("body"), py::arg("operands"), py::arg("left"))
      .def_property_readonly("operands", &ir::Op::operands, kOwned)
      .def(
          "can_take", [](ir::Op& op, ir::Value& v) { return ir::bring_before(v, op, true); },
          "Whether the value is defined before the op, or can be moved there.")
      .def(
          "add_operand",
          [](ir::Op& op, ir::Value* value) {
            if (!ir::bring_before(*value, op))
              throw support::InternalError("[ir] the operand is defined after the op.");
            op.set_operand(op.operand_count(), value);
          },
          "For a call: appends the operand for an input that was added at the end of the called "
          "graph.")
      .def_property_readonly(
          "results",
          [](const ir::Op& op) {
            std::vector<ir::Value*> results;
            for (size_t i = 0; i < op.result_count(); ++i) results.push_back(op.result(i));
            return results;
          },
          kOwned);
}

void bind_graph(py::module_& m) {
  py::class_<ir::Graph, std::unique_ptr<ir::Graph, py::nodelete>>(m, "Graph",
                                                                  "A graph of a module.")
      .def_property_readonly("name", [](const ir::Graph& g) { return g.name().text(); })
      .def_property_readonly(
          "inputs",
          [](const ir::Graph& g) {
            std::vector<ir::Value*> inputs;
            for (const auto& input : g.inputs()) inputs.push_back(input.get());
            return inputs;
          },
          kOwned)
      .def_property_readonly("outputs", &ir::Graph::outputs, kOwned)
      .def_property_readonly("ops", &ir::Graph::op_list, kOwned)
      .def(
          "add_input",
          [](ir::Graph& g, const PyType& type, const Text& name, bool by_reference) {
            return g.add_input(type_of(type), name, by_reference);
          },
          kOwned, py::arg("type"), py::arg("name"), py::arg("by_reference") = false)
      .def("set_outputs", &ir::Graph::set_outputs)
      .def("expand_call", &expand_call,
           "Replaces the call with this id by the ops of the called graph.", py::arg("id"))
      .def("give_memory", &give_memory, kOwned,
           "Writes a value into a declared state slot where it is computed; its users read the "
           "slot. Returns the value that replaces it.",
           py::arg("value"), py::arg("slot"))
      .def(
          "copy_ops_to",
          [](ir::Graph& from, ir::Graph& to) {
            std::vector<ir::Value*> results;
            for (ir::Op* op : from.ops())
              for (size_t i = 0; i < op->result_count(); ++i) results.push_back(op->result(i));
            const std::vector<ir::Value*> outputs = from.outputs();
            from.set_outputs(results);
            const std::vector<ir::Value*> copies = ir::copy_ops(from, to, {});
            from.set_outputs(outputs);
            std::vector<std::pair<ir::Value*, ir::Value*>> pairs;
            for (size_t i = 0; i < results.size(); ++i) pairs.emplace_back(results[i], copies[i]);
            return pairs;
          },
          kOwned, "Copies all ops of a graph without inputs; returns each result with its copy.")
      .def(
          "erase_ops",
          [](ir::Graph& graph) {
            graph.set_outputs({});
            const std::vector<ir::Op*> ops = graph.op_list();
            for (auto op = ops.rbegin(); op != ops.rend(); ++op) graph.erase(*op);
          },
          "Removes all ops and outputs of the graph.")
      .def(
          "constant",
          [](ir::Graph& g, const py::array& array, const Text& dtype) {
            return ir::Builder(g).constant(literal_of(array, dtype));
          },
          kOwned, "A constant of the array's elements.")
      .def(
          "scalar",
          [](ir::Graph& g, const Text& dtype, double value) {
            return ir::Builder(g).scalar(dtype_of(dtype), value);
          },
          kOwned, "A constant without dimensions.")
      .def(
          "variable",
          [](ir::Graph& g, const Text& name) {
            const ir::StateSlot* slot = g.module().find_state(name.value);
            if (!slot)
              throw support::InternalError(str("[ir] there is no state '", name.value, "'."));
            return ir::Builder(g).variable(*slot);
          },
          kOwned, "A declared state slot.")
      .def("emit", &emit, kOwned, "Adds an op at the end, checked and with inferred result types.",
           py::arg("name"), py::arg("operands"), py::arg("attrs") = py::dict(), py::arg("ipu") = -1,
           py::arg("io_tiles") = false, py::arg("scope") = "")
      .def("emit_custom", &emit_custom, kOwned,
           "Adds a custom op of a library: `id` is (domain, name, version), `attributes` the text "
           "of its attributes.",
           py::arg("id"), py::arg("attributes"), py::arg("operands"), py::arg("ipu") = -1,
           py::arg("io_tiles") = false, py::arg("scope") = "");
}

void bind_autodiff(py::module_& m) {
  using transforms::GradientGraph;
  auto connections = [](const std::vector<transforms::GradientConnection>& list) {
    std::vector<std::pair<bool, ir::Value*>> out;
    for (const auto& connection : list) {
      const bool gradient =
          connection.kind == transforms::GradientConnection::Kind::kForwardGradient;
      out.emplace_back(gradient, connection.forward);
    }
    return out;
  };
  py::class_<GradientGraph>(m, "GradientGraph",
                            "A gradient graph with its inputs and outputs: pairs of (is a "
                            "gradient, value of the forward graph).")
      .def_readonly("graph", &GradientGraph::gradient, py::return_value_policy::reference)
      .def_property_readonly(
          "inputs", [connections](const GradientGraph& g) { return connections(g.inputs); },
          py::return_value_policy::reference)
      .def_property_readonly(
          "outputs", [connections](const GradientGraph& g) { return connections(g.outputs); },
          py::return_value_policy::reference);
  m.def("autodiff", &transforms::autodiff, py::keep_alive<0, 1>(),
        "Makes the gradient graph of `forward`. It takes the gradients of the outputs `provided` "
        "(indices) and returns those of the inputs `required`. Adds outputs to `forward`.",
        py::arg("forward"), py::arg("provided"), py::arg("required"));
}

}  // namespace

py::class_<ir::Module>& module_class(py::module_& m) {
  static auto* type = new py::class_<ir::Module>(m, "Module", "A module of the IR.");
  return *type;
}

void bind_ir_building(py::module_& m) {
  module_class(m)
      .def(py::init([] { return std::make_unique<ir::Module>(ops::registry()); }))
      .def(
          "add_graph",
          [](ir::Module& module, const Text& name) { return &module.add_graph(name.value); },
          kOwned)
      .def(
          "add_state",
          [](ir::Module& module, const Text& name, const PyType& type, const Text& kind,
             int group_size, int group_stride) {
            module.add_state({.name = name.value,
                              .type = type_of(type),
                              .kind = kind,
                              .group_size = group_size,
                              .group_stride = group_stride});
          },
          "Declares a state slot; groups of `group_size` replicas share a value, 0: all.",
          py::arg("name"), py::arg("type"), py::arg("kind") = "parameter",
          py::arg("group_size") = 0, py::arg("group_stride") = 1)
      .def_property_readonly(
          "graphs",
          [](const ir::Module& module) {
            std::vector<ir::Graph*> graphs;
            for (const auto& graph : module.graphs()) graphs.push_back(graph.get());
            return graphs;
          },
          kOwned)
      .def("add_stream",
           [](ir::Module& module, const Text& name, const PyType& type, bool to_device) {
             module.add_stream({.name = name.value, .type = type_of(type), .to_device = to_device});
           })
      .def("add_remote_buffer", [](ir::Module& module, const Text& name, const PyType& type,
                                   int64_t entries) {
        module.add_remote_buffer({.name = name.value, .type = type_of(type), .entries = entries});
      });
  bind_value_and_op(m);
  bind_graph(m);
  bind_autodiff(m);
}

}  // namespace poptorch::bindings
