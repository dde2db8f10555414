"""Every PopXL op agrees with NumPy, and its gradients through autodiff agree with torch."""

import cases_layers
import cases_ops
import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.transforms import autodiff
from program import run_graph

CASES = [
    *cases_ops.ELEMENTWISE,
    *cases_ops.BINARY,
    *cases_ops.OPERATORS,
    *cases_ops.SHAPES,
    *cases_ops.REDUCTIONS,
    *cases_layers.PRODUCTS,
    *cases_layers.NORMS,
    *cases_layers.LOSSES,
    *cases_layers.INDEXING,
]


def listed(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_numpys(case):
    expected = [np.asarray(r) for r in listed(case.numpy(*case.inputs))]
    results = run_graph(case.op, *case.inputs)
    assert len(results) == len(expected)
    dtypes = case.dtypes or [None] * len(expected)
    for result, right, dtype in zip(results, expected, dtypes, strict=True):
        kind = np.dtype(dtype or (np.float32 if right.dtype == np.float64 else right.dtype))
        assert (result.shape, result.dtype) == (right.shape, kind)
        np.testing.assert_allclose(result, right, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("case", [c for c in CASES if c.torch], ids=str)
def test_gradients_are_torchs(case):
    torch = pytest.importorskip("torch")
    wanted = [i for i, a in enumerate(case.inputs) if a.dtype == np.float32]
    tensors = [torch.tensor(a, requires_grad=i in wanted) for i, a in enumerate(case.inputs)]
    outputs = listed(case.torch(*tensors))
    rng = np.random.default_rng(5)
    seeds = [rng.uniform(-1, 1, tuple(y.shape)).astype(np.float32) for y in outputs]
    grads = torch.autograd.grad(
        outputs, [tensors[i] for i in wanted], [torch.tensor(s) for s in seeds]
    )

    def program(*xs):
        xs, dys = xs[: len(case.inputs)], xs[len(case.inputs) :]
        graph = popxl.gir().create_graph(lambda xs: case.op(*xs), list(xs))
        info = autodiff(graph)
        forward = ops.call_with_info(graph, *xs)
        backward = ops.call_with_info(info.graph, *dys, inputs_dict=info.inputs_dict(forward))
        found = info.fwd_parent_ins_to_grad_parent_outs(forward, backward)
        return [found[xs[i]] for i in wanted]

    results = run_graph(program, *case.inputs, *seeds)
    for result, right in zip(results, grads, strict=True):
        tolerance = 5 * case.tolerance
        np.testing.assert_allclose(result, right.numpy(), rtol=tolerance, atol=tolerance)
