"""Random ops depend on their seed alone, and follow their distributions."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.random_seed import create_seeds, two_uint32_to_uint64, uint64_to_two_uint32
from popxl.transforms import autodiff
from program import run_graph

SEED, OTHER = create_seeds(3), create_seeds(4)


def test_equal_seeds_give_equal_numbers():
    def program(seed, other):
        draws = [ops.random_uniform(s, (50,)) for s in (seed, seed, other)]
        return *draws, *[ops.random_normal(s, (50,)) for s in (seed, seed, other)]

    a, b, c, d, e, f = run_graph(program, SEED, OTHER)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(d, e)
    assert not np.isclose(a, c).any() and not np.isclose(d, f).any()


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16])
def test_distributions_have_their_moments(dtype):
    n = 20000

    def program(seed):
        return (
            ops.random_uniform(seed, (n,), -1.0, 3.0, dtype),
            ops.random_normal(seed, (2, n // 2), 5.0, 2.0, dtype),
        )

    uniform, normal = run_graph(program, SEED)
    assert uniform.dtype == normal.dtype == dtype.as_numpy()
    assert normal.shape == (2, n // 2)
    uniform, normal = uniform.astype(np.float64), normal.astype(np.float64)
    assert uniform.min() >= -1 and uniform.max() <= 3
    assert abs(uniform.mean() - 1) < 0.05 and abs(uniform.var() - 16 / 12) < 0.05
    assert abs(normal.mean() - 5) < 0.06 and abs(normal.std() - 2) < 0.06
    assert abs(((normal - normal.mean()) ** 4).mean() / normal.var() ** 2 - 3) < 0.2


def test_split_seeds_differ():
    def program(seed):
        return ops.split_random_seed(seed, 4)

    seeds = run_graph(program, SEED)
    assert len({tuple(s) for s in [*seeds, SEED]}) == 5
    assert all(s.dtype == np.uint32 and s.shape == (2,) for s in seeds)


def test_dropout_scales_what_it_keeps_forward_and_backward():
    x = np.random.default_rng(0).uniform(1, 2, (40, 50)).astype(np.float32)

    def program(x, seed):
        graph = popxl.gir().create_graph(lambda x, s: ops.dropout(x, s, 0.25), x, seed)
        info = autodiff(graph)
        forward = ops.call_with_info(graph, x, seed)
        backward = ops.call_with_info(info.graph, x, inputs_dict=info.inputs_dict(forward))
        again = ops.dropout(x, seed, 0.25)
        rows = ops.shaped_dropout(x, seed, (40, 1), 0.5)
        return forward.outputs[0], backward.outputs[0], again, rows

    y, dx, again, rows = run_graph(program, x, SEED)
    kept = y != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(y, np.where(kept, x / 0.75, 0), rtol=1e-6)
    np.testing.assert_allclose(dx, np.where(kept, x / 0.75, 0), rtol=1e-6)
    np.testing.assert_array_equal(y, again)
    whole = (rows != 0).all(1)
    assert 0.2 < whole.mean() < 0.8 and ((rows == 0).all(1) == ~whole).all()


def test_seeds_of_the_host():
    seeds = create_seeds(7, offset=1, batches_per_step=3, replicas=2)
    assert seeds.shape == (3, 2, 2) and seeds.dtype == np.uint32
    drawn = np.random.default_rng(8).integers(0, 2**64 - 1, (3, 1, 2), dtype=np.uint64)
    assert two_uint32_to_uint64(*seeds[1, 1]) == drawn[1, 0, 1]
    assert uint64_to_two_uint32(2**40 + 9) == (2**8, 9)


@pytest.mark.parametrize(
    "seed, error",
    [(np.zeros(2, np.int32), ValueError), (np.zeros(3, np.uint32), ValueError)],
)
def test_other_tensors_are_no_seeds(seed, error):
    with popxl.Ir().main_graph, pytest.raises(error, match="seed"):
        ops.random_normal(popxl.constant(seed), (2,))


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_probabilities_lie_below_one(p):
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="must lie in"):
        ops.dropout(popxl.constant([1.0]), popxl.constant(SEED), p)
