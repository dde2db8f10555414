"""An ATen op from text, with any arguments, gives a poptorch error or a result."""

import json
import random

import numpy as np
import poptorch
import pytest
import torch
from poptorch_core import _core

X = np.ones((3, 3), np.float32)
GOOD = '[{"operand":0,"dtype":"f32"},2,0,1.0]'


class Renormed(torch.nn.Module):
    def forward(self, x):
        return torch.renorm(x, 2, 0, 1.0)


@pytest.fixture(scope="module", autouse=True)
def _provider():
    poptorch.inferenceModel(Renormed())(torch.ones(3, 3))  # registers ATen's kernels


def run(arguments, op="aten", operands="%x", more="", schema="aten::renorm.default"):
    text = json.dumps(arguments)
    module = _core.parse(
        "graph @main(%x: f32[3,3]) -> (f32[3,3]) {\n"
        f'  %y = {op}({operands}) {{arguments={text}, schema="{schema}"{more}}} : f32[3,3]\n'
        "  return %y\n}\n"
    )
    return _core.compile(module).run([X])[0]


def test_the_arguments_that_others_are_made_of_run():
    np.testing.assert_allclose(run(GOOD), torch.renorm(torch.tensor(X), 2, 0, 1.0))


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "[",
        "[" * 100000,
        '{"a":' * 100000,
        "[]",
        "7",
        '[{"operand":0,"dtype":"f32"},2,0]',
        '[{"operand":0,"dtype":"f32"},2,0,1.0,5]',
        '[{"operand":1,"dtype":"f32"},2,0,1.0]',
        '[{"operand":-1,"dtype":"f32"},2,0,1.0]',
        '[{"operand":"0","dtype":"f32"},2,0,1.0]',
        '[{"operand":0},2,0,1.0]',
        '[{"operand":0,"dtype":"f33"},2,0,1.0]',
        '[{"operand":0,"dtype":7},2,0,1.0]',
        '[{"dtype":"f32"},2,0,1.0]',
        '[{"float":7},2,0,1.0]',
        '[{"operand":0,"dtype":"f32"},[2],0,1.0]',
        '[{"operand":0,"dtype":"f32"},"2",0,1.0]',
        '[{"operand":0,"dtype":"f32"},2,null,1.0]',
        '[{"operand":0,"dtype":"f32"},2,99,1.0]',
        '[{"operand":0,"dtype":"f32"},2,99999999999999999999,1.0]',
        '["a',
        "[null,2,0,1.0]",
    ],
    ids=lambda text: text[:30],
)
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(poptorch.Error, match=r"\[aten\]") as refused:
        run(arguments)
    assert "std::" not in str(refused.value) and "_M_" not in str(refused.value)


@pytest.mark.parametrize("wanted", ["[1]", "[0, 0]", "[-1]"])
def test_gradients_of_operands_that_are_not_there_are_refused(wanted):
    with pytest.raises(poptorch.Error):
        run(GOOD, op="aten_vjp", operands="%x", more=f", wanted={wanted}")


def test_gradients_without_those_of_results_are_refused():
    with pytest.raises(poptorch.Error):
        run(GOOD, op="aten_vjp", operands="%x", more=", wanted=[0]")


def test_an_operator_that_torch_has_not_is_refused():
    with pytest.raises(poptorch.Error, match="torch has no operator 'aten::renom.default'"):
        run(GOOD, schema="aten::renom.default")


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        ("aten::from_file.default", '["/etc/passwd",false,9]', "takes its arguments on trust"),
        ("aten::bernoulli.default", '[{"operand":0,"dtype":"f32"},null]', "draws from torch's"),
        ("aten::dropout.default", '[{"operand":0,"dtype":"f32"},0.5,true]', "draws from torch's"),
        ("aten::set_.source_Storage", '[{"operand":0,"dtype":"f32"},null]', "takes a Storage"),
        ("aten::_foreach_add_.Scalar", '[[{"operand":0,"dtype":"f32"}],1]', "writes lists"),
        ("aten::_reshape_alias.default", '[{"operand":0,"dtype":"f32"},[99],[1]]', "on trust"),
        ("aten::empty.memory_format", "[[3,3]]", ""),
        ("aten::ones.default", "[[3,3],null,null,null,null]", "has no operand with elements"),
    ],
)
def test_an_operator_that_is_no_function_of_tensors_is_refused(schema, arguments, problem):
    with pytest.raises(poptorch.Error, match=rf"\[aten\].*{problem}"):
        run(arguments, schema=schema)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("aten::as_strided.default", '[{"operand":0,"dtype":"f32"},[3,3],[1000,1],0]'),
        ("aten::as_strided.default", '[{"operand":0,"dtype":"f32"},[3,3],[3,1],-4]'),
        ("aten::resize_.default", '[{"operand":0,"dtype":"f32"},[1099511627776],null]'),
    ],
)
def test_views_stay_in_their_tensor(schema, arguments):
    with pytest.raises(poptorch.Error):
        run(arguments, schema=schema)


def test_mutants_of_arguments_are_refused_or_run():
    numbers = random.Random(0)
    pieces = [*'[]{}",:-019', "null", "true", "1e99", '"operand"', '"dtype"', '"i64"', "\\"]
    ran = 0
    for _ in range(400):
        text = list(GOOD)
        for _ in range(numbers.randint(1, 3)):
            at = numbers.randrange(len(text))
            text[at : at + numbers.randint(0, 2)] = [numbers.choice(pieces)]
        try:
            run("".join(text))
            ran += 1
        except poptorch.Error:
            pass
    assert 0 < ran < 400
