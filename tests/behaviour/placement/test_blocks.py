"""Tests block annotations: ids, orders and scopes, as the placed form shows them; and refusals."""

import copy
import pickle
import re

import poptorch
import pytest
import torch

X = torch.randn(4, 4)


def options(strategy=None, iterations=4):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    return made.setExecutionStrategy(strategy or poptorch.PipelinedExecution())


def wrapped(model, strategy=None, iterations=4, *, example=X):
    made = poptorch.inferenceModel(model, options(strategy, iterations))
    made.compile(example)
    return made


def places(made, op="relu"):
    """Returns (ipu, stage) of each op of that name in the placed form."""
    found = re.findall(rf" {op}\(.*@\[ipu=(\d+)(?: stage=(\d+))?", made.graph("placed"))
    return [(int(ipu), int(stage or 0)) for ipu, stage in found]


class Scoped(torch.nn.Module):
    """A relu in each block; `blocks` are the arguments of the blocks."""

    def __init__(self, *blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x):
        poptorch.Block.useAutoId()
        for number, arguments in enumerate(self.blocks):
            with poptorch.Block(**arguments):
                x = torch.relu(x + number)
        return x


def chain(count=3):
    """Linear layers, each followed by a relu."""
    layers = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(count)]
    return torch.nn.Sequential(*layers)


def test_blocks_are_on_the_ipus_that_they_name():
    made = wrapped(Scoped(*({"ipu_id": i} for i in range(4))))
    assert places(made) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_automatic_ids_count_blocks_without_id_from_0():
    model = Scoped({}, {"user_id": "own"}, {})
    strategy = poptorch.PipelinedExecution("0", "own", poptorch.Stage("1").ipu(0))
    assert places(wrapped(model, strategy)) == [(0, 0), (1, 1), (0, 2)]


def test_automatic_ids_start_anew_in_each_trace():
    model = Scoped({}, {})
    strategy = poptorch.PipelinedExecution("0", "1")
    for _ in range(2):
        assert places(wrapped(model, strategy)) == [(0, 0), (1, 1)]


def test_a_stage_may_hold_several_blocks_and_its_ipu_wins():
    model = Scoped({"user_id": "a", "ipu_id": 1}, {"user_id": "b"}, {"user_id": "c", "ipu_id": 0})
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a", "b").ipu(0), poptorch.Stage("c"))
    strategy.stage("c").ipu(1)
    assert places(wrapped(model, strategy)) == [(0, 0), (0, 0), (1, 1)]


def test_auto_increment_counts_stages_and_visits_an_ipu_again():
    model = Scoped({"ipu_id": 0}, {"ipu_id": 1}, {"ipu_id": 0})
    made = wrapped(model, poptorch.AutoStage.AutoIncrement)
    assert places(made) == [(0, 0), (1, 1), (0, 2)]


def test_auto_increment_gives_a_block_without_ipu_that_of_its_stage():
    made = wrapped(Scoped({}, {}), poptorch.AutoStage.AutoIncrement)
    assert places(made) == [(0, 0), (1, 1)]


def test_a_block_of_the_same_id_goes_on():
    model = Scoped({"user_id": "a", "ipu_id": 0}, {"user_id": "a", "ipu_id": 0}, {"ipu_id": 1})
    assert places(wrapped(model)) == [(0, 0), (0, 0), (1, 1)]


def test_block_start_lasts_until_the_next():
    class Started(torch.nn.Module):
        def forward(self, x):
            x = torch.relu(x)
            poptorch.Block.start(ipu_id=1)
            x = torch.relu(x + 1)
            return torch.relu(x + 2)

    assert places(wrapped(Started())) == [(0, 0), (1, 1), (1, 1)]


def test_block_functions_keep_name_result_and_arguments():
    @poptorch.BlockFunction("f", ipu_id=1)
    def scaled(x, *, by):
        """Says what it does."""
        return torch.relu(x) * by

    class Model(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                x = torch.relu(x) - 1
            return scaled(x, by=2)

    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Says what it does."
    assert torch.equal(scaled(X, by=2), torch.relu(X) * 2)
    assert places(wrapped(Model())) == [(0, 0), (1, 1)]


def test_begin_block_lasts_until_the_next_and_code_before_is_on_ipu_0():
    model = chain(4)
    assert poptorch.BeginBlock(model[1], ipu_id=1) is model[1]
    poptorch.BeginBlock(model[3], ipu_id=2)
    made = poptorch.inferenceModel(model, options().autoRoundNumIPUs(True))
    made.compile(X)
    assert places(made) == [(0, 0), (1, 1), (1, 1), (2, 2)]
    assert torch.allclose(made(X), model(X), atol=1e-6)


def test_begin_block_counts_stages_from_1_behind_code_without_block():
    model = chain(3)
    poptorch.BeginBlock(model[1])
    poptorch.BeginBlock(model[2], ipu_id=0)
    made = wrapped(model, poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    assert places(made) == [(0, 0), (1, 1), (0, 2)]


class HookAdds(torch.nn.Module):
    """`hook_first`: the hook, which makes an op, is registered before BeginBlock."""

    def __init__(self, hook_first):
        super().__init__()
        self.first = torch.nn.Tanh()
        self.second = torch.nn.Tanh()

        def hook(_module, inputs):
            return (torch.relu(inputs[0]),)

        if hook_first:
            self.second.register_forward_pre_hook(hook)
        poptorch.BeginBlock(self.second, ipu_id=1)
        if not hook_first:
            self.second.register_forward_pre_hook(hook)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize("hook_first, ipu", [(True, 0), (False, 1)])
def test_hooks_before_begin_block_belong_to_the_block_before(hook_first, ipu):
    made = wrapped(HookAdds(hook_first))
    assert places(made) == [(ipu, ipu)]
    assert places(made, "tanh") == [(0, 0), (1, 1)]


def test_annotations_do_nothing_on_the_host():
    plain = chain()
    annotated = copy.deepcopy(plain)
    poptorch.BeginBlock(annotated[1], ipu_id=1)
    assert torch.equal(plain(X), annotated(X))
    with poptorch.Block("anything", ipu_id=7):
        poptorch.Block.useAutoId()
        assert torch.equal(plain(X), annotated(X))


def test_annotated_models_pickle_and_deepcopy():
    model = chain()
    poptorch.BeginBlock(model[1], "second", ipu_id=1)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert places(wrapped(twin)) == [(0, 0), (1, 1), (1, 1)]
        assert torch.equal(twin(X), model(X))


def test_remove_blocks_removes_them_from_the_whole_model():
    model = torch.nn.Sequential(chain())
    poptorch.BeginBlock(model[0][1], ipu_id=1)
    poptorch.removeBlocks(model)
    assert places(wrapped(model)) == [(0, 0)] * 3
    poptorch.BeginBlock(model[0][1], ipu_id=1)
    assert places(wrapped(model)) == [(0, 0), (1, 1), (1, 1)]


def test_print_shows_the_blocks(capsys):
    model = chain(2)
    poptorch.BeginBlock(model[1], "second", ipu_id=1)
    poptorch.print(model)
    shown = capsys.readouterr().out
    assert "(1): BeginBlock(user_id=second, ipu_id=1) Sequential(" in shown
    assert "BeginBlock" not in repr(model)


def test_a_callable_begins_a_block_too():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = poptorch.BeginBlock(torch.relu, ipu_id=1)

        def forward(self, x):
            return self.act(torch.relu(x) + 1)

    assert places(wrapped(Model())) == [(0, 0), (1, 1)]


def test_a_layer_that_runs_twice_begins_its_block_twice():
    shared = torch.nn.ReLU()
    poptorch.BeginBlock(shared, "a", ipu_id=1)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = shared

        def forward(self, x):
            return self.act(self.act(torch.tanh(x)) + 1)

    assert places(wrapped(Model())) == [(1, 1), (1, 1)]


HERE = r"test_blocks\.py:\d+"


def refused(model, text, strategy=None, iterations=4, error=poptorch.Error):
    with pytest.raises(error, match=text):
        wrapped(model, strategy, iterations)


def test_a_second_begin_block_is_refused():
    layer = poptorch.BeginBlock(torch.nn.ReLU(), "first")
    with pytest.raises(poptorch.Error, match="module has already been assigned to a block"):
        poptorch.BeginBlock(layer, "second")


def test_begin_block_refuses_what_cannot_be_called():
    with pytest.raises(poptorch.Error, match="BeginBlock takes a module, not int"):
        poptorch.BeginBlock(3)


def test_begin_blocks_out_of_order_are_refused():
    model = chain()
    poptorch.BeginBlock(model[2], "later", ipu_id=1)
    poptorch.BeginBlock(model[1], "earlier", ipu_id=0)
    refused(model, "=later,.*begins after.*=earlier,.*in the order in which the layers run")


class TwoParts(torch.nn.Module):
    """Annotated once; two programs each use a part of it."""

    def __init__(self, part):
        super().__init__()
        self.encoder = poptorch.BeginBlock(torch.nn.Linear(3, 3), "encoder", ipu_id=0)
        self.decoder = poptorch.BeginBlock(torch.nn.Linear(3, 3), "decoder", ipu_id=1)
        self.part = part

    def forward(self, x):
        return getattr(self, self.part)(x)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_begin_block_may_be_on_a_layer_that_a_program_does_not_call(part):
    model = TwoParts(part)
    strategy = poptorch.ShardedExecution("encoder", "decoder")
    options = poptorch.Options().setExecutionStrategy(strategy)
    wrapped = poptorch.inferenceModel(model, options)
    x = torch.randn(2, 3)
    torch.testing.assert_close(wrapped(x), model(x).detach())


class Outside(torch.nn.Module):
    def forward(self, x):
        with poptorch.Block(ipu_id=0):
            x = torch.relu(x)
        return torch.tanh(x)


def test_an_op_outside_of_scopes_is_refused():
    refused(
        Outside(), f"(?s)No active Block, all the ops must belong to a Block: op 'tanh'.*{HERE}"
    )


def test_an_unknown_block_is_refused():
    refused(
        Scoped({"user_id": "b"}),
        r"Unknown Block 'b' list of expected Blocks: \['a', 'c'\]",
        poptorch.PipelinedExecution("a", "c"),
        error=AssertionError,
    )


def test_same_as_ipu_needs_an_ipu():
    refused(Scoped({"user_id": "b"}), "SameAsIpu.*block 'b'", error=AssertionError)


def test_a_stage_that_goes_backwards_is_refused():
    model = Scoped({"ipu_id": 0}, {"ipu_id": 1}, {"ipu_id": 0})
    refused(model, rf"in stage 0 but uses the result.*{HERE}.*of stage 1. Stages must not go back")


def test_a_pipeline_needs_iterations():
    model = Scoped({"ipu_id": 0}, {"ipu_id": 1})
    refused(model, r"deviceIterations must be greater than or equal .*stages \(2\)", iterations=1)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        with poptorch.Block(ipu_id=0):
            x = self.fc(x)
        with poptorch.Block(ipu_id=1):
            return self.fc(x)


@pytest.mark.parametrize("kind", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
def test_a_weight_on_two_ipus_is_refused(kind):
    text = rf"parameter 'fc.*' is used on IPU 0 by .*{HERE}.* and on IPU 1 by .*{HERE}"
    refused(Tied(), text, kind())


def test_three_ipus_are_refused_unless_rounded():
    model = Scoped(*({"ipu_id": i} for i in range(3)))
    refused(model, "specifies the use of 3 IPUs, .* reserve a minimum of 4 .*autoRoundNumIPUs")
    made = poptorch.inferenceModel(model, options().autoRoundNumIPUs(True))
    assert torch.equal(made(X), model(X))


@pytest.mark.parametrize("strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
def test_arguments_of_strategies_are_checked(strategy):
    with pytest.raises(AssertionError, match="a associated with more than one stage"):
        strategy("a", poptorch.Stage("b", "a"))
    with pytest.raises(AssertionError, match="Unknown block"):
        strategy("a").stage("b")
    with pytest.raises(AssertionError, match="only argument"):
        strategy(poptorch.AutoStage.SameAsIpu, "a")
    with pytest.raises(AssertionError, match="strings"):
        poptorch.Stage(1)
    assert strategy(["a", "b"], "c").stage("b").blocks == ["a", "b"]


def test_ids_are_checked():
    with pytest.raises(AssertionError, match="An ipu_id is a number from 0, not -1"):
        poptorch.Block(ipu_id=-1)


def test_the_option_takes_strategies_only():
    made = poptorch.Options()
    with pytest.raises(AssertionError, match="setExecutionStrategy expects an execution strategy"):
        made.setExecutionStrategy("sharded")
    assert isinstance(made._execution_strategy, poptorch.PipelinedExecution)


def test_strategies_come_from_option_files(tmp_path):
    file = tmp_path / "options.conf"
    file.write_text(
        'setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("a", "b").ipu(3)))\n'
    )
    strategy = poptorch.Options().loadFromFile(str(file))._execution_strategy
    assert type(strategy) is poptorch.ShardedExecution
    assert repr(strategy) == "ShardedExecution(Stage('a', 'b').ipu(3))"
