"""Gradient graphs that recompute their forward graph instead of taking its results."""

import popxl
from popxl import ops
from popxl._impl.connections import connect
from popxl._impl.records import of
from popxl.transforms import ExpectedConnectionType
from popxl.transforms.autodiff import grad_graph_info
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.utils import suffix_graph_name


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """Makes a gradient graph that takes only inputs of the forward graph, and computes the rest.

    Its inputs are the gradients and forward inputs that `grad_graph` expects, the other forward
    inputs, and the same named inputs.

    Args:
        grad_graph: A gradient graph, made by `autodiff`.

    Raises:
        AttributeError: The graph is another one.
    """
    info = grad_graph.grad_graph_info
    forward, grad = info.forward_graph, info.graph
    named = grad.inputs[len(info.expected_inputs) :]
    made = popxl.gir().create_empty_graph(suffix_graph_name(grad.name, "recomp"))

    def like(t: popxl.Tensor) -> popxl.Tensor:
        return popxl.graph_input(t.shape, t.dtype, t.name, of(t).value.by_reference, t.meta_shape)

    expected, taken, inputs = [], {}, {}
    with made, popxl.in_sequence():
        for inner, connection in zip(grad.inputs, info.expected_inputs, strict=False):
            t = connection.fwd_tensor
            if connection.connection_type is ExpectedConnectionType.FwdGrad:
                taken[inner] = like(inner)
            elif t in forward.inputs:
                inputs[t] = like(t)
            else:
                continue
            expected.append(connection)
        for t in forward.inputs:
            if t not in inputs:
                inputs[t] = like(t)
                expected.append(connect(t, ExpectedConnectionType.Fwd))
        state = {t: like(t) for t in named}
        call = ops.call_with_info(forward, inputs_dict=inputs)
        for output in ops.call(grad, inputs_dict={**taken, **state, **info.inputs_dict(call)}):
            popxl.graph_output(output)
    changed = grad_graph_info(made, forward, expected, info.expected_outputs)
    return GraphWithNamedArgs(made, grad_graph.args.remap(state), changed)
