"""Helpers of popxl_addons: arrays, data, sessions with checkpoints, counts, gradients by hand."""

import json
import logging
import warnings
from collections import OrderedDict

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.errors import popart_exception
from popxl_addons import array_munging as munging
from popxl_addons.testing_utils import TensorInput, run_module

F32 = popxl.float32
rng = np.random.default_rng(12)
X = rng.uniform(-1, 1, (4, 6)).astype(np.float32)


def test_arrays_are_cut_and_joined():
    parts = munging.shard(X, 3, 1)
    assert parts.shape == (3, 4, 2)
    np.testing.assert_array_equal(parts[1], X[:, 2:4])
    np.testing.assert_array_equal(munging.unshard(parts, 1), X)
    blocks = munging.shard2D(X, 2, 3, 0, 1)
    np.testing.assert_array_equal(blocks[4], X[2:, 2:4])
    np.testing.assert_array_equal(munging.split2D(X, 2, 3, 0, 1)[1][1], X[2:, 2:4])
    np.testing.assert_array_equal(munging.unshard2D(blocks, 2, 3, 0, 1), X)
    np.testing.assert_array_equal(munging.repeat(X, 2), np.stack([X, X]))
    np.testing.assert_array_equal(munging.repeat_axis(X, 2, 1), np.repeat(X, 2, 1))
    np.testing.assert_array_equal(munging.repeat_shard(X, 2, 2, 0)[:2], np.stack([X[:2]] * 2))
    np.testing.assert_array_equal(munging.pad_axis(X, 8, 1, 5)[:, 6:], np.full((4, 2), 5))
    assert munging.squeeze_safe(X[:, None], [0, 1]).shape == X.shape
    with pytest.raises(ValueError):
        munging.shard(X, 4, 1)
    with pytest.raises(ValueError):
        munging.pad_axis(X, 3, 1)


def test_inputs_of_tensor_parallel_groups():
    assert munging.tensor_parallel_input(X, 2, 8).shape == (8, 6)
    np.testing.assert_array_equal(munging.tensor_parallel_input(X, 2, 8)[3], X[1])
    np.testing.assert_array_equal(munging.tensor_parallel_input(X, 4, 4)[3], X)
    for wrong in ((2, 7), (2, 4)):
        with pytest.raises(ValueError):
            munging.tensor_parallel_input(X, *wrong)
    rg = popxl.Ir(replication=6).replica_grouping(group_size=2)
    np.testing.assert_array_equal(munging.per_group(X, rg, 1), munging.shard(X, 3, 1))


def test_operations_are_counted():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(X.T.copy())
        graph = ir.create_graph(lambda a, b: ops.gelu(a @ b) @ a, x, w)
        (y,) = ops.call(graph, x, w)
        twice = ir.create_graph(lambda a: a + 1.0, y)
        ops.repeat(twice, 5, y)
        image = popxl.variable(np.zeros((1, 2, 5, 5), np.float32))
        _ = ops.conv(image, popxl.variable(np.zeros((3, 2, 3, 3), np.float32)))
    counts = addons.evaluate_FLOPs(ir.main_graph)
    assert counts == {
        "MatMul": 2 * 4 * 6 * 4 + 2 * 4 * 4 * 6,
        "Gelu": 16,
        "Add": 5 * 24,
        "Conv": 2 * 3 * 3 * 3 * 2 * 3 * 3,
    }
    assert addons.total_FLOPs(ir.main_graph) == sum(counts.values())


def test_operations_are_printed(capsys):
    ir = popxl.Ir()
    with ir.main_graph:
        _ = popxl.variable(X) + 1.0
    addons.print_FLOPs(ir.main_graph)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "|", "24"]


def test_blocks_are_timed(capsys, caplog):
    with addons.timer("Work"):
        pass
    assert capsys.readouterr().out.startswith("Work: 0.")
    with caplog.at_level(logging.INFO), addons.timer("More", logging.getLogger("t")):
        pass
    assert caplog.messages[0].startswith("More: 0.")


def test_text_is_printed_at_run_time(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        addons.print_text("here we are")
        addons.print_tensor(popxl.constant(1.0), "one")
    with popxl.Session(ir) as session:
        assert "here we are" not in capfd.readouterr().err
        session.run()
    assert "here we are" in capfd.readouterr().err


def test_weights_are_collected_and_written():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable(X), popxl.variable(X[0])
        _ = a + b
    weights = addons.WeightsDict({a: 2 * X})
    weights[b] = 3 * X[0]
    for wrong in ({b: X[0]}, {popxl.variable: X}):
        with pytest.raises((ValueError, AttributeError)):
            weights.update(wrong)
    with pytest.raises(ValueError, match="shape"):
        addons.WeightsDict({a: X[0]})
    session = popxl.Session(ir)
    addons.write_variables_pb(session, weights)
    np.testing.assert_array_equal(session.get_tensor_data(a), 2 * X)
    np.testing.assert_array_equal(session.get_tensor_data(b), 3 * X[0])
    assert addons.OrderedDict is OrderedDict


def task(scale=1.0, name="w", **arguments):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs, outputs = addons.InputStreams(x=((6,), F32)), addons.OutputStreams(y=((6,), F32))
        state = addons.NamedTensors.from_dict({name: popxl.variable(X[0] * scale, name=name)})
        state.insert("count.steps", popxl.variable(0, name="steps"))
        ops.host_store(outputs.y, ops.host_load(inputs.x) * state[name])
        ops.add_(state.count.steps, popxl.constant(1))
        return addons.TaskSession(inputs, outputs, state, **arguments)


def test_a_task_knows_its_streams_and_keeps_checkpoints(tmp_path):
    session = task(max_checkpoints=2)
    with session:
        for _ in range(3):
            y = session.run({session.inputs.x: X[1]})[session.outputs.y]
            path = session.save_checkpoint(tmp_path / "kept")
    np.testing.assert_allclose(y, X[0] * X[1], rtol=1e-6)
    assert path.name == "checkpoint_2"
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["checkpoint_1", "checkpoint_2"]
    info = json.loads((path / "session_info.json").read_text())
    assert info["tensors"]["w"] == {"shape": [6], "dtype": "float32"}

    other = task(5.0)
    for source, steps in ((tmp_path / "kept", 3), (tmp_path / "kept/checkpoint_1", 2)):
        other.load_checkpoint(source)
        data = other.get_named_tensors_data()
        assert data["count.steps"] == steps
        np.testing.assert_array_equal(data["w"], X[0])
    with pytest.raises(ValueError, match="no checkpoint"):
        other.load_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="other tensors"):
        task(name="v").load_checkpoint(path)


def test_a_task_takes_another_ones_state():
    session, other = task(2.0), task(3.0, "v")
    session.load_from_session(task(7.0))
    np.testing.assert_array_equal(session.get_named_tensors_data()["w"], 7 * X[0])
    other.load_from_session(session, {"w": "v"})
    np.testing.assert_array_equal(other.get_named_tensors_data()["v"], 7 * X[0])
    with pytest.raises(ValueError, match="not in both"):
        other.load_from_session(session, {"z": "v"})


def test_data_is_mapped_into_memory(tmp_path):
    def program(**arguments):
        ir = popxl.Ir()
        with ir.main_graph:
            t = popxl.constant(X)
            facts, graph = addons.layers.Linear(3).create_graph(t)
            variables = facts.init(memmap_dir=tmp_path, **arguments)
            out = addons.ops.host_store(graph.bind(variables).call(t)[0])
        return popxl.Session(ir), variables, out

    session, variables, out = program()
    with session:
        y = session.run()[out]
    weight = np.fromfile(tmp_path / "weight.raw", np.float32).reshape(6, 3)
    np.testing.assert_allclose(y, X @ weight, rtol=1e-5, atol=1e-6)
    session.write_variable_data(variables.weight, 2 * weight)
    again, variables, _ = program(read_only_if_exists=True)
    np.testing.assert_array_equal(again.get_tensor_data(variables.weight), 2 * weight)
    assert not again.get_tensor_data(variables.weight).flags.writeable
    with again:
        again.run()


def test_groupings_have_names_and_instances():
    ir = popxl.Ir(replication=8)
    with ir.main_graph:
        rg = addons.named_replica_grouping.get_instance_replica_grouping(instances=2)
        assert rg.group_size == 4
        assert addons.named_replica_grouping.get_ild_replica_grouping(rg) is rg
        with pytest.raises(ValueError):
            addons.named_replica_grouping.get_instance_replica_grouping(instances=3)
    named = addons.NamedReplicaGrouping.build_groups(["a.w", "b"], rg)
    assert named.to_dict() == {"a.w": rg, "b": rg}


def test_settings_for_hardware_are_accepted():
    ir = popxl.Ir()
    addons.set_available_memory_proportion_by_ipu(ir, [0.5])
    addons.enable_fc_pass(ir)
    addons.disable_fc_pass(ir)
    addons.patterns.apply_pre_alias_patterns(ir.main_graph, "default")
    with pytest.raises(ValueError):
        addons.set_available_memory_proportion_by_ipu(ir, [1.5])
    with pytest.raises(ValueError):
        addons.patterns.apply_pre_alias_patterns(ir.main_graph, "some")


class ByHand(addons.Module):
    """tanh(x @ w) with its gradient written out; `twist` scales it, to tell it from autodiff's."""

    def __init__(self, twist=1.0, grad_inlining_error="error"):
        super().__init__(grad_inlining_error=grad_inlining_error)
        self.twist = twist

    def build(self, x: popxl.Tensor):
        self.x = x
        self.w = self.add_variable_input("w", lambda: X.T)
        self.y = ops.tanh(x @ self.w)
        return self.y * 2.0

    def build_grad(self, dy):
        y, x, w = self.aux(self.y), self.aux(self.x), self.aux(self.w)
        inner = dy * (2.0 * self.twist) * (1.0 - y * y)
        self.var_grad(self.w, x.T @ inner)
        return inner @ w.T


def test_gradients_are_written_by_hand():
    torch = pytest.importorskip("torch")
    ir = popxl.Ir()
    dy = rng.uniform(-1, 1, (4, 4)).astype(np.float32)
    with ir.main_graph:
        x = popxl.constant(X)
        module = ByHand()
        facts, graph = module.create_graph(x)
        grad = module.create_grad_graph(graph)
        variables = facts.init()
        call = graph.bind(variables).call_with_info(x)
        info = grad.grad_graph_info
        back = grad.call_with_info(popxl.constant(dy), args=info.inputs_dict(call))
        found = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        streams = [
            addons.ops.host_store(t) for t in (call.outputs[0], found[x], found[variables.w])
        ]
    with popxl.Session(ir) as session:
        got = session.run()
    xt, wt = torch.tensor(X, requires_grad=True), torch.tensor(X.T.copy(), requires_grad=True)
    y = torch.tanh(xt @ wt) * 2
    y.backward(torch.tensor(dy))
    for stream, right in zip(streams, (y.detach(), xt.grad, wt.grad), strict=True):
        np.testing.assert_allclose(got[stream], right, rtol=1e-4, atol=1e-5)
    with ir.main_graph, pytest.raises(NotImplementedError):
        linear = addons.layers.Linear(2)
        linear.create_grad_graph(linear.create_graph(x)[1])


class Around(addons.Module):
    """A module with a gradient by hand in another: its ops, or a call of its graph."""

    def __init__(self, mode="error", call=False):
        super().__init__()
        self.inner, self.call = ByHand(3.0, mode), call

    def build(self, x: popxl.Tensor):
        if not self.call:
            return self.inner(x)
        facts, self.graph = self.inner.create_graph(x)
        self.grad = self.inner.create_grad_graph(self.graph)
        return self.graph.bind(self.add_variable_inputs("state", facts)).call(x)[0]


def gradient_around(mode, call=False, nested=False):
    """The gradient of x by autodiff around ByHand, whose `twist` is 3."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, module = popxl.constant(X), Around(mode, call)
        facts, graph = module.create_graph(x)
        variables = facts.init()
        given = {}
        if call:
            given[module.graph.graph] = module.grad.grad_graph_info
        forward, inputs = graph.graph, [x, *graph.mapping(variables).values()]
        if nested:
            inner = forward
            forward = ir.create_graph(lambda x, w: ops.call(inner, x, w), *inputs)
        grad = popxl.transforms.autodiff(forward, called_graphs_grad_info=given)
        called = ops.call_with_info(forward, *inputs)
        dy = popxl.constant(np.ones((4, 4), np.float32))
        back = ops.call_with_info(grad.graph, dy, inputs_dict=grad.inputs_dict(called))
        out = addons.ops.host_store(grad.fwd_parent_ins_to_grad_parent_outs(called, back)[x])
    with popxl.Session(ir) as session:
        return session.run()[out]


@pytest.mark.parametrize("nested", [False, True])
def test_a_gradient_by_hand_that_autodiff_leaves_out_is_told(nested):
    text = "ByHand.build_grad is not used.*graph Around_subgraph.*create_grad_graph"
    with pytest.raises(popart_exception, match=text):
        gradient_around("error", nested=nested)
    with pytest.warns(UserWarning, match=text):
        right = gradient_around("warn", nested=nested)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(gradient_around("ignore", nested=nested), right)
        np.testing.assert_allclose(gradient_around("error", call=True), right * 3.0, rtol=1e-5)


@pytest.mark.parametrize("value", ["Error", "", None, True])
def test_what_inlining_does_is_one_of_three(value):
    with pytest.raises(ValueError, match=r"grad_inlining_error must be one of .*'ignore'\) but is"):
        addons.Module(grad_inlining_error=value)


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("scaled", [False, True])
def test_adam_steps_as_torchs(correct, decay, scaled):
    torch = pytest.importorskip("torch")
    grads = rng.uniform(-1, 1, (3, 4, 6)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(X, name="w")
        stream = popxl.h2d_stream((4, 6), F32)
        grad = ops.host_load(stream)
        more = {}
        if scaled:
            norm = ops.sqrt(addons.ops.grad_reduce_square_add([grad], 8.0))
            more = {"loss_scaling": 8.0, "global_norm": norm, "global_norm_max": 0.5}
        facts, graph = addons.AdamOptimizerStep().create_graph(
            w,
            grad,
            lr=0.01,
            weight_decay=decay,
            first_order_dtype=F32,
            eps=1e-5,
            bias_correction=correct,
            **more,
        )
        extra = [more["global_norm"]] if scaled else []
        graph.bind(facts.init()).call(w, grad, *extra)
    session = popxl.Session(ir)
    with session:
        for g in grads:
            session.run({stream: g})
    got = session.get_tensor_data(w)

    wt = torch.tensor(X, requires_grad=True)
    optimiser = torch.optim.AdamW([wt], 0.01, eps=1e-5, weight_decay=decay)
    m, v, right = np.zeros_like(X), np.zeros_like(X), X.astype(np.float64)
    for g in grads:
        wt.grad = torch.tensor(g / 8 if scaled else g)
        if scaled:
            torch.nn.utils.clip_grad_norm_([wt], 0.5)
        optimiser.step()
        m, v = 0.9 * m + 0.1 * wt.grad.numpy(), 0.999 * v + 0.001 * wt.grad.numpy() ** 2
        right = right - 0.01 * (m / (np.sqrt(v) + 1e-5) + decay * right)
    expected = wt.detach().numpy() if correct else right
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
    with ir.main_graph, pytest.raises(ValueError, match="global_norm_max"):
        addons.AdamOptimizerStep().create_graph(w, w, lr=0.1, global_norm=popxl.constant(1.0))


def test_modules_run_on_data():
    weight = rng.uniform(-1, 1, (6, 3)).astype(np.float32)
    (y,) = run_module(addons.layers.Linear(3), TensorInput(X), weights={"weight": weight})
    np.testing.assert_allclose(y, X @ weight, rtol=1e-5, atol=1e-6)
