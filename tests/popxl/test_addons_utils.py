"""Tests utilities of popxl_addons: collections, names, timing, printing on the device, seeds."""

import logging
import re

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl_addons import utils

X = np.random.default_rng(12).uniform(-1, 1, (4, 6)).astype(np.float32)


def test_blocks_are_timed(caplog):
    with caplog.at_level(logging.INFO), addons.timer("Work"):
        pass
    with caplog.at_level(logging.INFO), addons.timer(log_to_wandb=False):
        pass
    assert [re.sub(r"\d", "0", m) for m in caplog.messages] == [
        "Work: 0.00 mins",
        "Duration: 0.00 mins",
    ]


PRINTED = [(None, "DEBUG", False), (None, "INFO", True), ("DEBUG", "DEBUG", True)]
PRINTED += [("TRACE", "DEBUG", True), ("WARN", "INFO", False), ("warn", "WARN", True)]


@pytest.mark.parametrize("environment, level, shown", PRINTED)
def test_text_is_printed_at_run_time(capfd, monkeypatch, environment, level, shown):
    if environment is None:
        monkeypatch.delenv("MODEL_LOG_LEVEL", raising=False)
    else:
        monkeypatch.setenv("MODEL_LOG_LEVEL", environment)
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.constant(1.5) * 1.0
        addons.print_text("here we are", level=level)
        addons.print_text("number", 77, level=level)
        assert (addons.print_tensor(t, "one", level=level) is t) is not shown
    with popxl.Session(ir) as session:
        assert "here we are" not in capfd.readouterr().err
        session.run()
    err = capfd.readouterr().err
    for text in ("here we are", "number", "77", "one", "1.5"):
        assert (text in err) is shown


def test_what_is_no_level_is_refused(monkeypatch):
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="log level"):
        addons.print_text("x", level="LOUD")
    monkeypatch.setenv("MODEL_LOG_LEVEL", "all")
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="log level"):
        addons.print_tensor(popxl.constant(1.0))


def test_weights_are_collected_and_written():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        a, b = popxl.variable(X), popxl.variable(X[0])
        rg = ir.replica_grouping(group_size=1)
        c = popxl.variable(X[:2], replica_grouping=rg)
        _ = a + b + c
    weights = addons.WeightsDict({a: X}, {b: 2 * X[0]})
    weights[b] = 3 * X[0]
    weights.update({a: 2 * X, c: 4 * X[:2]})
    assert (list(weights), len(weights), b in weights) == ([a, b, c], 3, True)
    with pytest.raises(ValueError, match="shapes do not equal"):
        weights[a] = X[0]
    with pytest.raises(ValueError, match="shapes do not equal"):
        addons.WeightsDict({c: X[0]})
    with pytest.raises(ValueError, match="dtypes do not equal"):
        addons.WeightsDict({a: X.astype(np.float16)})
    session = popxl.Session(ir, "ipu_hw")
    addons.write_variables_pb(session, weights)
    for variable, data in ((a, 2 * X), (b, 3 * X[0]), (c, 4 * X[:2])):
        np.testing.assert_array_equal(session.get_tensor_data(variable), data)


def test_dicts_have_places():
    d = addons.OrderedDict(b=1, a="x")
    assert (d.idx(0), d.idx(-1), d.idx(slice(0, 2))) == (1, "x", [1, "x"])
    assert [line.strip() for line in repr(d).splitlines()[1:-1]] == ["'b': 1,", "'a': 'x',"]
    assert d == {"b": 1, "a": "x"} and isinstance(d, dict)
    assert repr(addons.OrderedDict()) == "OrderedDict()"


def test_names_and_classes():
    class Child(addons.Module):
        def build(self, x):
            return x

    assert utils.suffix_graph_name("Net_subgraph(12)", "grad") == "Net_grad"
    assert utils.overrides(Child, addons.Module, "build")
    assert utils.overrides(Child(), addons.Module, addons.Module.build)
    assert not utils.overrides(Child, addons.Module, "build_grad")
    assert utils.duplicate_items("abcab") == ["a", "b"] and not utils.duplicate_items([1, 2])
    with utils.null_context() as nothing:
        assert nothing is None


@pytest.mark.parametrize("groups", [None, 2, 1])
def test_seeds_are_different_for_every_group(groups):
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        rg = groups and ir.replica_grouping(group_size=4 // groups)
        variable, seed = addons.seed_variable(7, rg)
        assert (variable.name, seed.shape, seed.dtype) == ("random_seed", (2,), popxl.uint32)
        shown = [(op.op_type, op.settings.executionContext.name) for op in of(ir.main_graph).ops]
        comes = "WeightsFromHostFragment"
        assert shown == [
            ("Init", comes),
            ("RemoteLoad", comes),
            ("RemoteStore", "WeightsToHostFragment"),
        ]
        out = addons.ops.host_store(ops.random_uniform(seed, (3,)))
        ops.add_(seed, popxl.constant([1, 0], popxl.uint32))
    session = popxl.Session(ir, "ipu_hw")
    before = session.get_tensor_data(variable).copy()
    with session:
        got = session.run()[out]
    drawn = {tuple(row) for row in got}
    assert len(drawn) == (groups or 4)
    count = groups or 4
    data = popxl.create_seeds(7, replicas=count)
    np.testing.assert_array_equal(before, data)
    np.testing.assert_array_equal(session.get_tensor_data(variable), data + np.uint32([1, 0]))
