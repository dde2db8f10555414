"""Tests private names of PopTorch that programs use, and their effects."""

import copy
import importlib
import inspect
import pickle
from pathlib import Path

import poptorch
import pytest
import torch
from poptorch import _impl, optim, poptorch_core
from poptorch.ops import LegacyBeginBlockFn, _BlockHook

X = torch.ones(2, 4)
PLACES = """
    _poplar_executor.PoplarExecutor _args_parser.ArgsParser _utils.flattenTensorStructure
    _utils.reconstructTensorStructure _utils.combine_batch_tensors_gen createPoptorchError
    module_repr optim.Optimizer ops._BlockHook ops.LegacyBeginBlockFn options._IExecutionStrategy
    _impl.isDispatchTracing _impl.isRunningOnIpu _impl.createPoptorchError _impl.isWrapped
    _impl.unwrapIfWrapped _impl.registerWrapperType poptorch_core.ipuHardwareVersion
    poptorch_core._validateOptions poptorch_core.isCompilingWithDispatcher
""".split()
ARGUMENTS = {
    poptorch.BeginBlock: "layer_to_call, user_id=None, ipu_id=None",
    poptorch.Phase: "*arg",
    poptorch.Phase.stage: "self, idx",
    poptorch.Phase.ipus: "self, *ipus",
    optim.VariableAttributes: "variable_attributes, allowed_attributes",
    optim.VariableAttributes.isConstant: "self, attr",
    optim.VariableAttributes.markAsConstant: "self, attr",
    optim.VariableAttributes.markAsVariable: "self, attr",
    poptorch.registerCustomArgParser: "arg_data_type, arg_parser",
    poptorch.Options.disableModuleNamescope: "self",
    poptorch_core.ipuHardwareVersion: "num_ipus=1",
    poptorch.print: "m",
    poptorch.createPoptorchError: "msg",
}


@pytest.mark.parametrize("name", PLACES)
def test_where_programs_look(name):
    found = poptorch
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda f: f.__qualname__)
def test_arguments_have_their_names(function):
    parameters = inspect.signature(function).parameters.values()
    plain = [p.replace(annotation=p.empty) for p in parameters]
    assert ", ".join(map(str, plain)) == ARGUMENTS[function]


def test_whether_a_model_is_captured():
    seen = []

    def look(x):
        asked = (_impl.isDispatchTracing, _impl.isRunningOnIpu)
        seen.append([ask() for ask in (*asked, poptorch_core.isCompilingWithDispatcher)])
        if x.shape[0] == 1:
            raise RuntimeError("no")
        return x + 1

    for argument in (X, X[:1]):
        wrapped = poptorch.inferenceModel(look)
        if len(argument) == 1:
            with pytest.raises(RuntimeError, match="no"):
                wrapped(argument)
        else:
            wrapped(argument)
        assert seen.pop() == [True] * 3
        assert not poptorch_core.isCompilingWithDispatcher() and not _impl.isDispatchTracing()


def test_errors_of_the_python_layer():
    error = poptorch.createPoptorchError("what happened")
    assert isinstance(error, poptorch.Error)
    assert str(error) == "'poptorch_py_error': what happened"
    assert (error.type, error.message) == ("poptorch_py_error", "what happened")
    assert error.location == ""


def test_wrapped_objects():
    model = torch.nn.Linear(4, 2)
    plain = type(model)
    wrapped = poptorch.trainingModel(Loss(model), None)
    for held in (wrapped.model, model.weight):
        assert _impl.isWrapped(held)
        assert not _impl.isWrapped(_impl.unwrapIfWrapped(held))
    assert torch.equal(_impl.unwrapIfWrapped(model.weight), model.weight)
    assert type(_impl.unwrapIfWrapped(wrapped.model)) is Loss
    wrapped.destroy()

    class Wrapper(plain):
        pass

    other = torch.nn.Linear(4, 2)
    other.__class__ = Wrapper
    assert not _impl.isWrapped(other) and _impl.unwrapIfWrapped(other) is other
    _impl.registerWrapperType(Wrapper)
    assert _impl.isWrapped(other)
    assert type(_impl.unwrapIfWrapped(other)) is plain
    assert _impl.unwrapIfWrapped(other).weight is other.weight


class Loss(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return poptorch.identity_loss(self.layer(x), "mean")


def test_the_path_of_file_contents_can_be_imported_its_names_are_refused():
    assert importlib.import_module("poptorch._poptorch_data") is poptorch._poptorch_data
    assert not hasattr(poptorch._poptorch_data, "__wrapped__")
    with pytest.raises(poptorch.Error, match=r"_poptorch_data.PoptorchData .* poptorch\.load"):
        from poptorch._poptorch_data import PoptorchData  # noqa: F401


class Hook:
    def __call__(self, *_):
        pass

    def __repr__(self):
        return "Hook()"


def test_modules_are_shown_with_their_hooks(capsys):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU()))
    model[0].register_forward_pre_hook(Hook())
    poptorch.BeginBlock(model[0], ipu_id=1)
    poptorch.BeginBlock(model[1], ipu_id=2)
    text = """Sequential(
  (0): Hook() BeginBlock(user_id=None, ipu_id=1) Linear(in_features=4, out_features=4, bias=True)
  (1): BeginBlock(user_id=None, ipu_id=2) Sequential(
    (0): ReLU()
  )
)"""
    assert poptorch.module_repr(model) == text
    poptorch.print(m=model)
    poptorch.print([1])
    assert capsys.readouterr().out == text + "\n[1]\n"


def double(x):
    return 2 * x


def test_block_hooks_and_callables():
    layer = poptorch.BeginBlock(torch.nn.Linear(4, 4), "here", 3)
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, _BlockHook) and repr(_BlockHook("here", 3)) == repr(hook)
    begun = poptorch.BeginBlock(double, user_id="there", ipu_id=1)
    for made in (begun, pickle.loads(pickle.dumps(begun)), copy.deepcopy(begun)):
        assert isinstance(made, LegacyBeginBlockFn)
        assert (made._user_id, made._ipu_id, made._layer_to_call) == ("there", 1, double)
        assert torch.equal(made(X), 2 * X)


OWN = ("SGD", "Adam", "AdamW", "RMSprop", "LAMB")


@pytest.mark.parametrize("name", OWN)
def test_optimisers_have_a_base_of_their_own(name):
    kind = getattr(optim, name)
    assert kind.__bases__[0] is optim.Optimizer
    assert kind.__bases__[1].__module__.startswith("torch.optim")
    assert not issubclass(optim.Optimizer, torch.optim.Optimizer)
    model = torch.nn.Linear(4, 2)
    assert not isinstance(torch.optim.SGD(model.parameters(), lr=0.1), optim.Optimizer)
    optimiser = kind(model.parameters(), lr=0.1)
    assert not optimiser.has_state() and not optimiser.ipu_state_is_dirty
    wrapped = poptorch.trainingModel(Loss(model), None, optimiser)
    wrapped(X)
    assert optimiser.ipu_state_is_dirty
    stale = optimiser.get_state_dict()
    state = optimiser.state_dict()
    assert optimiser.has_state() and not optimiser.ipu_state_is_dirty
    assert optimiser.get_state_dict().keys() == state.keys() == stale.keys()
    wrapped(X)
    assert optimiser.ipu_state_is_dirty and not optimiser.host_state_is_dirty
    wrapped.detachFromDevice()
    wrapped.destroy()
    optimiser.set_state_dict(state)
    assert optimiser.host_state_is_dirty and not optimiser.ipu_state_is_dirty
    for slot, value in optimiser.get_state_dict()["ipu_state"].items():
        assert torch.equal(value, state["ipu_state"][slot])


def test_variable_attributes_are_lists():
    attributes = optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1).variable_attrs
    assert isinstance(attributes._variable_attributes, list)
    assert attributes.isConstant("momentum") and not attributes.isConstant("lr")
    attributes._variable_attributes = list(attributes._allowed_attributes)
    assert not attributes.isConstant("momentum")
    attributes.markAsConstant("momentum")
    attributes.markAsConstant("momentum")
    assert attributes.isConstant("momentum")


def test_wrappers_of_a_class_of_ones_own():
    class Counting(poptorch.PoplarExecutor):
        def __init__(self, model, options):
            super().__init__(
                model=copy.copy(model),
                options=options,
                training=True,
                poptorch_version=poptorch.__version__,
                optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1),
                user_model=model,
            )
            self.calls = 0

        def __call__(self, *args, **kwargs):
            self.calls += 1
            return super().__call__(*args, **kwargs)

    model = Loss(torch.nn.Linear(4, 2))
    before = model.layer.weight.detach().clone()
    wrapped = Counting(model, poptorch.Options())
    wrapped(X)
    assert wrapped.calls == 1 and wrapped.model.layer.weight is model.layer.weight
    assert not torch.equal(model.layer.weight, before)
    fourth = list(inspect.signature(poptorch.PoplarExecutor).parameters)
    assert fourth == "model options training poptorch_version optimizer user_model".split()


def test_groupings_of_parameters_are_told():
    options = poptorch.Options().replicationFactor(2)
    wrapped = poptorch.inferenceModel(torch.nn.Linear(4, 2), options)
    assert wrapped.per_replica_params == {}
    one = poptorch.VariableRetrievalMode.OnePerGroup
    wrapped.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, one)
    said = (poptorch.CommGroupType.NoGrouping, 0, one)
    assert wrapped.per_replica_params == {"weight": said}


def test_batches_are_combined():
    batches = [[torch.full((n, 2), n), torch.tensor(n)] for n in (1, 2)]
    rows, numbers = poptorch._utils.combine_batch_tensors_gen(batches)
    assert rows.tolist() == [[1, 1], [2, 2], [2, 2]] and numbers.tolist() == [1, 2]


def test_arguments_are_parsed():
    parser = poptorch._args_parser.ArgsParser(lambda a, b=3, *, c=None: None)
    assert parser._varnames == ["a", "b", "c"]
    args = parser((X,), {"c": [X, 1]})
    a, b, c = args.asTuple()
    assert a is X and b == 3 and c[0] is X and c[1] == 1
    assert len(args.tensors) == 2
    with pytest.raises(AssertionError, match="d is not a valid parameter"):
        parser((X,), {"d": 1})
    with pytest.raises(poptorch.Error, match="Mandatory parameter weight"):
        poptorch._args_parser.ArgsParser(Needs())((X,), {})


class Needs(torch.nn.Module):
    def forward(self, x, weight):
        return x * weight


def test_versions_of_the_pool():
    assert poptorch.ipuHardwareVersion(64) == poptorch_core.ipuHardwareVersion() == 2
    with pytest.raises(AssertionError, match="No IPU hardware available"):
        poptorch.ipuHardwareVersion(128)


def test_name_scopes_by_torchs_operators():
    def scoped(x):
        torch.ops.poptorch.push_name_scope("outer")
        x = torch.tanh(x)
        torch.ops.poptorch.pop_name_scope()
        return torch.relu(x)

    assert torch.equal(scoped(X), torch.relu(torch.tanh(X)))
    wrapped = poptorch.inferenceModel(scoped)
    assert torch.allclose(wrapped(X), scoped(X))
    lines = wrapped.graph("traced").splitlines()
    assert ["outer" in line for line in lines if "tanh(" in line or "relu(" in line] == [
        True,
        False,
    ]


def public_objects():
    for name, value in vars(poptorch).items():
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def test_public_names_say_by_which_path_users_import_them():
    elsewhere = {
        name: value.__module__
        for name, value in public_objects()
        if value.__module__ not in ("poptorch", "poptorch_core")
    }
    assert elsewhere == {}
    assert len(list(public_objects())) > 60


@pytest.mark.parametrize("name", ["Options", "PipelinedExecution", "OutputMode", "trainingModel"])
def test_public_names_are_pickled_by_that_path(name):
    value = getattr(poptorch, name)
    assert pickle.loads(pickle.dumps(value)) is value
    assert b"poptorch._impl" not in pickle.dumps(value)


def test_pickles_of_version_3_4_load():
    """Returns options with a strategy, a module with a hook that begins a block, and an
    enumeration."""
    path = Path(__file__).parent / "pickles/version_3_4.pickle"
    assert b"poptorch._impl.option_groups" in path.read_bytes()
    options, module, mode = pickle.loads(path.read_bytes())
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a"), poptorch.Stage("b"))
    assert repr(options) == repr(
        poptorch.Options().deviceIterations(4).setExecutionStrategy(strategy)
    )
    (hook,) = module._forward_pre_hooks.values()
    assert type(hook) is _BlockHook
    assert mode is poptorch.OutputMode.All
