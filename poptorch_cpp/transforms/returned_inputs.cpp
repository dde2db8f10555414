// A loop's outputs feed its first inputs, so that inputs carried from round to round move to the
// front of the copy's inputs.
#include "transforms/returned_inputs.hpp"

#include "ir/builder.hpp"
#include "ir/roles.hpp"

namespace poptorch::transforms {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

// The copy's inputs, and the operands that the op passes for them.
struct Inputs {
  std::vector<Value*> of_body;  // in the order of the graph that is copied
  std::vector<Value*> operands;
};

Inputs add_inputs(Graph& copy, const Graph& body, const std::vector<Value*>& operands, bool loop,
                  const std::vector<LeftInput>& left) {
  const auto& inputs = body.inputs();
  Inputs out{std::vector<Value*>(inputs.size()), {}};
  auto take = [&](size_t i) {
    out.operands.push_back(operands[i]);
    return copy.add_input(inputs[i]->type(), inputs[i]->name(), inputs[i]->by_reference());
  };
  if (loop) {
    const size_t fed = body.outputs().size();
    for (size_t i = 0; i < fed; ++i) out.of_body[i] = take(i);
    for (const LeftInput& each : left) {
      Value* carried = take(each.index);
      if (each.index >= fed) out.of_body[each.index] = carried;
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!out.of_body[i]) out.of_body[i] = take(i);
  }
  return out;
}

}  // namespace

Op* return_inputs(Op& op, ir::Symbol name, Graph& body, const std::vector<Value*>& operands,
                  const std::vector<LeftInput>& left) {
  Graph& graph = op.graph();
  Graph& copy = graph.module().add_graph(name.text());
  const Inputs inputs = add_inputs(copy, body, operands, ir::is_loop(op), left);
  const std::vector<Value*> outputs = body.outputs();
  for (const LeftInput& each : left) body.add_output(each.value);
  copy.set_outputs(ir::copy_ops(body, copy, inputs.of_body));
  body.set_outputs(outputs);
  ir::Builder builder(graph, &op);
  builder.copy_context(op);
  ir::Attrs attrs = op.attrs();
  attrs.set("graph", ir::GraphRef{name});
  Op* made = builder.emit(op.name(), inputs.operands, std::move(attrs));
  for (Op* earlier : op.after()) made->add_after(earlier);
  for (size_t i = 0; i < op.result_count(); ++i) {
    made->result(i)->set_name(op.result(i)->name());
    op.result(i)->replace_all_uses_with(made->result(i));
  }
  graph.erase(&op);
  return made;
}

}  // namespace poptorch::transforms
