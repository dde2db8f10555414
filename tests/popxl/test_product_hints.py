"""Hints of popxl's products and convolutions: half partials round values, shares change figures."""

import numpy as np
import popxl
import pytest
from popxl import ops


def run(body, session_option=""):
    ir = popxl.Ir()
    ir._pb_ir.getSessionOptions().partialsTypeMatMuls = session_option
    with ir.main_graph:
        out = body()
        stream = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(stream, out)
    with popxl.Session(ir, "ipu_model") as session:
        return session.run()[stream]


RANDOM = np.random.default_rng(1)
A = RANDOM.standard_normal((6, 300)).astype(np.float16)
B = RANDOM.standard_normal((300, 5)).astype(np.float16)
X = RANDOM.standard_normal((1, 40, 6, 6)).astype(np.float16)
W = RANDOM.standard_normal((4, 40, 3, 3)).astype(np.float16)


def product(**hints):
    return lambda: ops.matmul(popxl.variable(A), popxl.variable(B), **hints)


def by_halves():
    """Returns A · B, rounded to float16 after every 16 terms."""
    total = np.zeros((6, 5), np.float32)
    for k in range(300):
        total = total + A[:, k, None].astype(np.float32) * B[None, k].astype(np.float32)
        if (k + 1) % 16 == 0:
            total = total.astype(np.float16).astype(np.float32)
    return total.astype(np.float16)


def test_partials_of_products():
    whole, half = run(product()), by_halves()
    assert np.array_equal(run(product(partials_type=popxl.float16)), half)
    assert not np.array_equal(whole, half)
    assert np.array_equal(run(product(), "half"), half)
    assert np.array_equal(run(product(partials_type=popxl.float32), "half"), whole)
    assert np.array_equal(run(product(available_memory_proportion=0.1)), whole)


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_partials_of_convolutions(name):
    def body(**hints):
        weight = W if name == "conv" else W.transpose(1, 0, 2, 3).copy()
        return lambda: getattr(ops, name)(popxl.variable(X), popxl.variable(weight), **hints)

    whole = run(body())
    half = run(body(partials_types=["half"]))
    assert not np.array_equal(whole, half)
    np.testing.assert_allclose(half.astype(float), whole.astype(float), rtol=0.05, atol=0.1)
    assert np.array_equal(run(body(partials_types=[popxl.float16])), half)
    assert np.array_equal(run(body(partials_types=["float"])), whole)


def test_a_share_out_of_range_is_refused():
    with popxl.Ir().main_graph, pytest.raises(ValueError, match=r"from 0 to 1 but is 1\.5"):
        product(available_memory_proportion=1.5)()
