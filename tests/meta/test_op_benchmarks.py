"""`benchmarks.ops` measures every op of the vocabulary, or says why not."""

import functools

import pytest
from poptorch_core import _core

from benchmarks.ops import __main__ as command
from benchmarks.ops.program import Program
from benchmarks.ops.tables import CASES, SLOW, UNMEASURED
from benchmarks.ops.updates import Update


@functools.cache
def rows_of(case, gradients):
    ours = Program(case, min(case.sizes), case.dtypes[0], gradients).ours(1, stochastic=False)
    return {name for name, _, _ in ours.costs()}


def has_gradients(case):
    return not isinstance(case, Update) and case.gradients and case.dtypes[0].is_floating_point


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_measures_the_ops_that_it_names(case):
    assert set(case.rows) <= rows_of(case, False)
    if has_gradients(case):
        assert set(case.gradient_rows) <= rows_of(case, True)
    else:
        assert not case.gradient_rows


def test_every_op_is_measured_or_has_a_reason():
    measured = set().union(*(rows_of(case, False) for case in CASES))
    measured |= set().union(*(rows_of(case, True) for case in CASES if has_gradients(case)))
    assert sorted(set(_core.op_names()) - measured - set(UNMEASURED)) == []
    assert sorted(set(UNMEASURED) - set(_core.op_names())) == []
    assert len({case.name for case in CASES}) == len(CASES)
    assert set(SLOW) <= {case.name for case in CASES}


def test_an_unknown_case_is_refused_with_names_like_it(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks.ops", "sofmax"])
    with pytest.raises(SystemExit):
        command.parse_arguments()
    said = capsys.readouterr().err
    assert "no case is named 'sofmax'" in said
    assert "softmax" in said.partition("Names like it")[2]
