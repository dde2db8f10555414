"""Gradient graphs that run their forward graph again instead of taking its results."""

import popxl
from popxl import ops
from popxl.records import of
from popxl.transforms import ExpectedConnection, ExpectedConnectionType, GradGraphInfo
from popxl_addons.graph import GraphWithNamedArgs


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """A gradient graph that needs only the inputs of the forward graph, and computes the rest.

    grad_graph: made by `autodiff`; its named inputs stay. ValueError for another graph.
    """
    info = grad_graph.grad_graph_info
    forward, grad = info.forward_graph, info.graph
    is_grad = [c.connection_type is ExpectedConnectionType.FwdGrad for c in info.expected_inputs]
    named = grad.inputs[len(is_grad) :]
    made = popxl.gir().create_empty_graph(f"{grad.name}_recompute")

    def like(t: popxl.Tensor) -> popxl.Tensor:
        return popxl.graph_input(t.shape, t.dtype, t.name, of(t).value.by_reference, t.meta_shape)

    with made, popxl.in_sequence():
        provided = {t: like(t) for t, g in zip(grad.inputs, is_grad, strict=False) if g}
        inputs = [like(t) for t in forward.inputs]
        state = {t: like(t) for t in named}
        call = ops.call_with_info(forward, *inputs)
        taken = {**provided, **state, **info.inputs_dict(call)}
        for output in ops.call(grad, inputs_dict=taken):
            popxl.graph_output(output)
    expected = [c for c, g in zip(info.expected_inputs, is_grad, strict=True) if g]
    expected += [ExpectedConnection(t, ExpectedConnectionType.Fwd) for t in forward.inputs]
    changed = GradGraphInfo(made, forward, expected, info.expected_outputs)
    args = grad_graph.args.remap(state)
    return GraphWithNamedArgs(made, args, changed)
