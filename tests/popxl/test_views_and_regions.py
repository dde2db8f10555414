"""Tests views of several tensors, reversed slices, image regions, routed gradients, retrieval."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl.ops.collectives import all_reduce_identical_grad_inputs, all_reduce_identical_inputs
from popxl.transforms import autodiff
from popxl_addons.transforms.autodiff import remap_grad_info
from program import run_graph

F32 = popxl.float32
rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (5, 4)).astype(np.float32)

SLICES = [
    np.s_[::-1],
    np.s_[::-2],
    np.s_[3:0:-1],
    np.s_[4:1:-2, ::-1],
    np.s_[-2::-1, 1],
    np.s_[:, 3:1:-1],
    np.s_[1:4:2, ::-3],
]


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_slices_with_negative_steps(key):
    (y,) = run_graph(lambda x: x[key], X)
    np.testing.assert_array_equal(y, X[key])


def test_concat_shares_the_memory_of_its_parts():
    def program(a, b):
        both = ops.concat_([a, b], 1)
        before = both + 0.0
        ops.add_(b, b)
        between = both + 0.0
        ops.add_(both, both)
        return before, between, a + 0.0, b + 0.0

    a, b = X[:, :1], X[:, 1:]
    before, between, first, second = run_graph(program, a, b)
    np.testing.assert_array_equal(before, X)
    np.testing.assert_array_equal(between, np.concatenate([a, 2 * b], 1))
    np.testing.assert_array_equal(first, 2 * a)
    np.testing.assert_array_equal(second, 4 * b)


def sampled(image, y, x):
    """Bilinear interpolation, as ONNX's RoiAlign defines it."""
    h, w = image.shape[-2:]
    if y < -1 or y > h or x < -1 or x > w:
        return np.zeros(image.shape[0], np.float32)
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    y, y0 = (float(h - 1), h - 1) if y0 >= h - 1 else (y, y0)
    x, x0 = (float(w - 1), w - 1) if x0 >= w - 1 else (x, x0)
    a, b = y - y0, x - x0
    top = (1 - b) * image[:, y0, x0] + b * image[:, y0, x1]
    return (1 - a) * top + a * ((1 - b) * image[:, y1, x0] + b * image[:, y1, x1])


def roi_align(t, rois, batch, size, scale, ratio):
    out = np.zeros((len(rois), t.shape[1], *size), np.float32)
    for r, (x1, y1, x2, y2) in enumerate(rois * scale):
        high, wide = max(y2 - y1, 1.0) / size[0], max(x2 - x1, 1.0) / size[1]
        down, across = (ratio, ratio) if ratio else (int(np.ceil(high)), int(np.ceil(wide)))
        for i in range(size[0]):
            for j in range(size[1]):
                points = [
                    sampled(
                        t[batch[r]],
                        y1 + (i + (u + 0.5) / down) * high,
                        x1 + (j + (v + 0.5) / across) * wide,
                    )
                    for u in range(down)
                    for v in range(across)
                ]
                out[r, :, i, j] = np.mean(points, 0)
    return out


ROIS = np.float32([[0, 0, 9, 7], [4, 2, 15, 13], [-6, -3, 30, 30], [5, 5, 5.5, 5.5]])


GRIDS = [((2, 3), 0.5, 2), ((1, 1), 1.0, 3), ((2, 3), 0.5, 0), ((1, 1), 1.0, 0), ((5, 2), 1.0, -1)]


def images_of_regions():
    return rng.uniform(-1, 1, (2, 3, 8, 9)).astype(np.float32), np.int32([0, 1, 1, 0])


@pytest.mark.parametrize("size, scale, ratio", GRIDS)
@pytest.mark.parametrize("known", [False, True])
def test_roi_align(size, scale, ratio, known):
    images, batch = images_of_regions()

    def program(t, r, b):
        regions = popxl.constant(ROIS) if known else r
        return ops.roi_align(t, regions, b, size, scale, ratio)

    (y,) = run_graph(program, images, ROIS, batch)
    expected = roi_align(images, ROIS, batch, size, scale, max(ratio, 0))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_every_run_counts_the_samples_of_its_regions():
    ir = popxl.Ir()
    images, batch = images_of_regions()
    with ir.main_graph:
        stream = popxl.h2d_stream(ROIS.shape, popxl.float32)
        y = ops.roi_align(
            popxl.constant(images), ops.host_load(stream), popxl.constant(batch), (2, 2), 1.0, 0
        )
        out = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(out, y)
    with popxl.Session(ir) as session:
        for factor in (1.0, 0.2, 2.5):
            expected = roi_align(images, ROIS * factor, batch, (2, 2), 1.0, 0)
            found = session.run({stream: ROIS * np.float32(factor)})[out]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        # An invalid region gives NaN, a huge one ends; the others keep their values.
        odd = ROIS.copy()
        odd[0, 1], odd[1, 2] = np.nan, 3e38
        found = session.run({stream: odd})[out]
        assert np.isnan(found[:2]).all()
        np.testing.assert_allclose(
            found[2:], roi_align(images, ROIS, batch, (2, 2), 1.0, 0)[2:], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("size, scale, ratio", GRIDS)
def test_the_gradients_of_roi_align(size, scale, ratio):
    images, batch = images_of_regions()
    dy = rng.uniform(-1, 1, (4, 3, *size)).astype(np.float32)
    rois = ROIS.copy()
    rois[1] = [4.1, 2.2, 14.7, 13.1]  # away from where the number of samples changes

    def program(t, r, b, dy):
        graph = popxl.gir().create_graph(
            lambda t, r, b: ops.roi_align(t, r, b, size, scale, ratio), t, r, b
        )
        info = autodiff(graph)
        call = ops.call_with_info(graph, t, r, b)
        return ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))

    dx, dr = run_graph(program, images, rois, batch, dy)

    def loss(images, regions):
        return (dy * roi_align(images, regions, batch, size, scale, max(ratio, 0))).sum(dtype="f8")

    # Linear in the image: checked for single elements that the regions weigh differently.
    for place in [(0, 0, 0, 0), (0, 1, 3, 4), (1, 2, 7, 8), (1, 0, 2, 5), (0, 2, 5, 5)]:
        one = np.zeros_like(images)
        one[place] = 1
        np.testing.assert_allclose(dx[place], loss(one, rois), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((dx * images).sum(), loss(images, rois), rtol=1e-3, atol=1e-4)
    # The gradient of a region, by central differences.
    r, step = 1, 1e-3
    for column in range(4):
        ahead, behind = rois.astype("f8"), rois.astype("f8")
        ahead[r, column] += step
        behind[r, column] -= step
        slope = (loss(images, ahead) - loss(images, behind)) / (2 * step)
        np.testing.assert_allclose(dr[r, column], slope, rtol=2e-2, atol=2e-3)


def test_given_gradient_graphs_are_used():
    def program(x, dy):
        ir = popxl.gir()
        inner = ir.create_graph(lambda x: ops.tanh(x) * x, x)
        info = autodiff(inner)
        # A separate gradient graph: twice the real gradient.
        double = ir.create_graph(
            lambda *xs: [2.0 * g for g in ops.call(info.graph, *xs)], *info.graph.inputs
        )
        ours = remap_grad_info(info, inner, double)
        results = []
        for given in ({}, {inner: ours}):
            outer = ir.create_graph(lambda x: ops.call(inner, x)[0] + x, x)
            grad = autodiff(outer, called_graphs_grad_info=given)
            call = ops.call_with_info(outer, x)
            results += ops.call(grad.graph, dy, inputs_dict=grad.inputs_dict(call))
        return results

    x, dy = X, rng.uniform(-1, 1, X.shape).astype(np.float32)
    plain, doubled = run_graph(program, x, dy)
    slope = np.tanh(x) + x * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(plain, dy * (slope + 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(doubled, dy * (2 * slope + 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduce", [all_reduce_identical_inputs, all_reduce_identical_grad_inputs])
def test_reductions_between_ipus_that_are_identities_one_way(reduce):
    ir = popxl.Ir()
    with ir.main_graph:

        def forward(a, b):
            with popxl.ipu(0):
                a = a * 2.0
            with popxl.ipu(1):
                b = b * 3.0
            return reduce([a, b], [0, 1])

        x = [popxl.constant(X, name=n) for n in "ab"]
        graph = ir.create_graph(forward, *x)
        info = autodiff(graph)
        call = ops.call_with_info(graph, *x)
        dy = [popxl.constant(np.full_like(X, n)) for n in (5, 7)]
        grads = ops.call(info.graph, *dy, inputs_dict=info.inputs_dict(call))
        out = []
        for t in (*call.outputs[:2], *grads):
            out.append(popxl.d2h_stream(t.shape, F32))
            with popxl.ipu(of(t).ipu or 0):
                ops.host_store(out[-1], t)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()
    a, b, da, db = (got[s] for s in out)
    if reduce is all_reduce_identical_inputs:
        right = [2 * X, 3 * X, np.full_like(X, 24), np.full_like(X, 36)]
    else:
        right = [5 * X, 5 * X, np.full_like(X, 10), np.full_like(X, 21)]
    for result, expected in zip((a, b, da, db), right, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_inputs_may_be_left_out():
    def program(x):
        graph = popxl.gir().create_graph(lambda a, b: a + b, x, x)
        info = ops.call_with_info(graph, inputs_dict={graph.inputs[1]: x}, check_inputs=False)
        with pytest.raises(ValueError, match="Input .* was not passed"):
            info.parent_input(0)
        assert info.inputs == (x,) and info.graph_to_parent(graph.inputs[1]) is x
        return info.outputs

    (y,) = run_graph(program, X)
    np.testing.assert_array_equal(y, X)


def test_every_replicas_value_is_retrieved():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        rg = ir.replica_grouping(group_size=2)
        v = popxl.variable(np.float32([1, 2]), replica_grouping=rg, retrieval_mode="all_replicas")
        x = popxl.h2d_stream((), F32)
        ops.add_(v, ops.host_load(x))
    session = popxl.Session(ir, "ipu_hw")
    with session:
        session.run({x: np.float32([10, 20, 30, 40])})
    assert session.get_tensor_data(v).tolist() == [11, 21, 32, 42]
    with pytest.raises(NotImplementedError):
        session.write_variable_data(v, np.float32([1, 2]))
    with ir.main_graph, pytest.raises(ValueError, match="retrieval_mode"):
        popxl.variable(1.0, retrieval_mode="none")


def test_groups_without_constant_stride_have_variables():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        rg = ir.replica_grouping_from_assignments([0, 1, 1, 0])
        v = popxl.variable(np.float32([1, 2]), replica_grouping=rg)
        out = popxl.d2h_stream((), F32)
        ops.host_store(out, v)
        ops.add_(v, v)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        assert session.run()[out].tolist() == [1, 2, 2, 1]
    assert session.get_tensor_data(v).tolist() == [2, 4]


def test_prints_as_asked(capfd):
    def program(x):
        y = ops.print_tensor(
            x, "numbers", digits=2, separator=";", open_bracket="<", close_bracket=">"
        )
        graph = popxl.gir().create_graph(
            lambda x: ops.print_tensor(x * x, "square", print_self=False, print_gradient=True), x
        )
        info = autodiff(graph)
        call = ops.call_with_info(graph, x)
        return y, *ops.call(info.graph, x, inputs_dict=info.inputs_dict(call))

    _, dx = run_graph(program, np.float32([1.5, 2]))
    printed = capfd.readouterr().err
    assert "numbers" in printed and "<1.5;2.0>" in printed.replace(" ", "")
    assert "square_gradient" in printed and "square\n" not in printed
    np.testing.assert_allclose(dx, 2 * np.float32([1.5, 2]) ** 2)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_tell_what_goes_where(condition):
    def program(cond, x, y):
        then = popxl.gir().create_graph(lambda a: a + 1.0, x)
        other = popxl.gir().create_graph(lambda a, b: a * b, x, y)
        info = ops.conditional_with_info(cond, then, other, [x], [x, y])
        assert info.graph_to_parent(then.inputs[0]) is x
        assert info.graph_to_parent(other.inputs[1]) is y
        assert info.graph_to_parent_input_index(0, then_branch=False) == 2
        assert info.outputs[0].name == "add_out_or_mul_out"
        return ops.rename(info.outputs[0], "chosen"), ops.flatten_(info.outputs[0])

    y = 2 * X
    chosen, flat = run_graph(program, np.array(condition), X, y)
    np.testing.assert_allclose(chosen, X + 1 if condition else X * y, rtol=1e-6)
    np.testing.assert_array_equal(flat, chosen.ravel())


def test_loops_tell_what_goes_where():
    def program(x, y):
        graph = popxl.gir().create_graph(lambda a, b: a * b, x, y)
        info = ops.repeat_with_info(graph, 3, x, y)
        assert info.parent_to_graph(y) is graph.inputs[1]
        assert info.graph_to_parent(graph.outputs[0]) is info.parent_output(0)
        with pytest.raises(ValueError):
            info.graph_to_parent(x)
        return info.outputs

    (z,) = run_graph(program, X, X + 1)
    np.testing.assert_allclose(z, X * (X + 1) ** 3, rtol=1e-5, atol=1e-6)
