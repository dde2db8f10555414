"""Tests private names of PopTorch that public programs read, in one table."""

import contextlib
import copy
import datetime
import importlib
import inspect
import pickle

import poptorch
import pytest
import torch
from poptorch import _args_parser, _impl, _utils
from poptorch._poplar_executor import NO_EXECUTABLE_ERR, _OverwriteContextManager

X = torch.ones(2, 4)

# The names, by the object that has them. A name that is missing here was lost by accident before.
TABLE = {
    "poptorch._impl": "unwrapModelIfNecessary rewrapModelIfNecessary _restoreWrapperIfNecessary",
    "poptorch._logging": "setLogLevel",
    "executor": """_options _executable _executable_inputs _user_model _model _is_attached
        _dict_optimizer _host_weights_version _compilation_time _cycle_count _dirty_host_weights
        _ipu_optimizer_state_is_dirty _compile _trace _args_parser _attributes_to_state""",
    "options": "_values _training _precision _distributed _jit _tensor_locations",
    "poptorch._args_parser": "ArgsParser ParsedArgs",
    "poptorch._poplar_executor": "PoplarExecutor _OverwriteContextManager NO_EXECUTABLE_ERR",
    "poptorch._utils": "getIpuTensorId getCustomParser hasCustomParser on_ipu",
    "loader": "_is_user_batch_sampler_set _rebatched_size _combined_batch_size",
}
ROWS = [(where, name) for where, names in TABLE.items() for name in names.split()]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x, factor=1.0):
        y = self.layer(x) * self.scale * factor
        return y, poptorch.identity_loss(y.square(), "mean")


def made(where):
    if where == "executor":
        return poptorch.trainingModel(Model())
    if where == "options":
        return poptorch.Options()
    if where == "loader":
        return poptorch.DataLoader(poptorch.Options(), [X, X])
    return importlib.import_module(where)


@pytest.mark.parametrize(("where", "name"), ROWS)
def test_the_name_exists(where, name):
    assert name in dir(made(where))
    getattr(made(where), name)


def training(**options):
    chosen = poptorch.Options()
    for name, value in options.items():
        getattr(chosen, name)(value)
    model = Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    return model, poptorch.trainingModel(model, chosen, optimizer)


def test_an_executor_before_and_after_its_compilation():
    model, wrapped = training(logCycleCount=True)
    absent = "_executable _executable_inputs _compilation_time _cycle_count _trace".split()
    assert [getattr(wrapped, name) for name in absent] == [None] * 5
    assert wrapped._dict_optimizer == {} and not wrapped._is_attached
    wrapped._compile(wrapped._args_parser((X,), {}))
    executable = wrapped._executable
    assert executable is not None and wrapped._is_attached and wrapped._cycle_count is None
    assert wrapped._executable_inputs.asTuple()[1] == 1.0
    assert isinstance(wrapped._executable_inputs, _args_parser.ParsedArgs)
    assert wrapped._compilation_time > datetime.timedelta(0)
    assert wrapped._dict_optimizer["kind"] == "sgd"
    assert wrapped._trace == wrapped.graph("traced")
    wrapped(X)
    assert wrapped._cycle_count == wrapped.cycleCount() and wrapped._executable is executable
    wrapped.destroy()
    assert [getattr(wrapped, name) for name in absent] == [None] * 5 and not wrapped._is_attached


def test_models_and_options_of_an_executor():
    model, wrapped = training(deviceIterations=2)
    assert wrapped._user_model is model and wrapped._model is not model
    assert wrapped._model.layer.weight is model.layer.weight
    assert wrapped._options is wrapped.options and wrapped._options.device_iterations == 2
    assert wrapped._attributes_to_state.keys() == model.state_dict().keys()
    assert wrapped._attributes_to_state["scale"] is model.scale
    assert wrapped._args_parser._varnames == ["x", "factor"]
    function = poptorch.inferenceModel(torch.relu)
    assert function._model is function._user_model is torch.relu
    assert function._attributes_to_state == {}


def test_where_an_executor_has_the_newest_state():
    model, wrapped = training()
    wrapped(X)
    dirty = wrapped._dirty_host_weights, wrapped._ipu_optimizer_state_is_dirty
    version = wrapped._host_weights_version
    wrapped(X)
    assert dirty == (True, True) and wrapped._host_weights_version == version
    wrapped.copyWeightsToHost()
    wrapped._state.optimizer.state_dict()
    assert not wrapped._dirty_host_weights and not wrapped._ipu_optimizer_state_is_dirty
    assert wrapped._host_weights_version > version
    inference = poptorch.inferenceModel(wrapped)
    inference(X)
    assert not inference._ipu_optimizer_state_is_dirty
    assert inference._host_weights_version == wrapped._host_weights_version


def test_an_executor_refuses_assignments():
    _, wrapped = training()
    for name in TABLE["executor"].split():
        if name != "_compile":
            with pytest.raises(AttributeError):
                setattr(wrapped, name, None)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_of_an_executor_have_the_names(copied):
    _, wrapped = training()
    wrapped._args_parser._varnames = ["a", "b"]
    assert wrapped._args_parser._varnames == ["a", "b"]
    again = copied(wrapped)
    assert type(again._user_model) is not Model and again._args_parser._varnames[0] == "x"
    assert again._executable is None


def test_a_model_is_unwrapped_in_place_and_wrapped_again():
    model, wrapped = training()
    wrapped(X)
    kinds = type(model), type(model.layer.weight), type(model.scale)
    assert _impl.unwrapModelIfNecessary(model) is model
    assert (type(model), type(model.layer.weight)) == (Model, torch.nn.Parameter)
    assert type(model.scale) is torch.Tensor
    held = model.layer.weight.clone()
    pickle.loads(pickle.dumps(model))
    for _ in range(2):
        assert _impl.rewrapModelIfNecessary(model) is model
        assert _impl.isWrapped(model) and _impl.isWrapped(model.scale)
    assert [k.__name__ for k in (type(model), type(model.layer.weight), type(model.scale))] == [
        kind.__name__ for kind in kinds
    ]
    wrapped(X)
    assert not torch.equal(model.layer.weight, held)
    model.destroy()
    assert type(model) is Model and type(model.layer.weight) is torch.nn.Parameter


def test_single_tensors_are_unwrapped_and_wrapped_again():
    model, wrapped = training()
    wrapped(X)
    for tensor in (model.layer.weight, model.scale):
        assert _impl.unwrapModelIfNecessary(tensor) is tensor and not _impl.isWrapped(tensor)
        assert _impl._restoreWrapperIfNecessary(tensor) is tensor and _impl.isWrapped(tensor)
    before = model.layer.weight.clone()
    wrapped(X)
    assert not torch.equal(model.layer.weight, before)
    _impl.unwrapModelIfNecessary(model)
    _impl._restoreWrapperIfNecessary(model)
    assert _impl.isWrapped(model) and not _impl.isWrapped(model.scale)


def test_a_model_stays_unwrapped_after_its_wrapper():
    model, wrapped = training()
    wrapped(X)
    _impl.unwrapModelIfNecessary(model)
    wrapped.destroy()
    assert type(_impl.rewrapModelIfNecessary(model)) is Model
    assert type(model.layer.weight) is torch.nn.Parameter
    again = poptorch.trainingModel(model)
    again(X)
    assert _impl.isWrapped(model)


@pytest.mark.parametrize("value", [1, None, "text", [X], X, torch.nn.Linear(1, 1), Model])
def test_other_objects_are_returned_unchanged(value):
    kind = type(value)
    for name in TABLE["poptorch._impl"].split():
        assert getattr(_impl, name)(value) is value and type(value) is kind


def test_the_log_level():
    poptorch._logging.setLogLevel("ERR")
    assert poptorch._logging.logger.level == poptorch._logging.logging.ERROR
    poptorch._logging.setLogLevel("INFO")
    with pytest.raises(ValueError, match="LOUD"):
        poptorch._logging.setLogLevel("LOUD")


def test_values_of_options():
    options = poptorch.Options().deviceIterations(3)
    options.Training.gradientAccumulation(2)
    with pytest.raises(AssertionError, match="output mode"):
        options.toDict()
    assert options._values["device_iterations"] == 3
    assert options.Training._values["gradient_accumulation"] == 2
    assert options._training is options.Training and options._precision is options.Precision
    assert options._distributed is options.Distributed and options._jit is options.Jit
    assert options._tensor_locations is options.TensorLocations
    with pytest.raises(TypeError):
        options._values["device_iterations"] = 4
    assert copy.deepcopy(options)._values.keys() == options._values.keys()


def test_names_of_arguments_can_be_assigned():
    parser = _args_parser.ArgsParser(lambda a, b=3: None)
    parser._varnames = ["first", "second"]
    assert parser((), {"first": X}).asTuple() == (X, 3)
    with pytest.raises(AssertionError, match=r"a is not a valid parameter.*first.*second"):
        parser((X,), {"a": X})
    parser._varnames = ["first", "second", "third"]
    with pytest.raises(poptorch.Error, match="third missing"):
        parser((), {"first": X})


def test_parsers_of_arguments_may_skip_the_constructor():
    class Parser(_args_parser.ArgsParser):
        def __init__(self, model):
            parameters = inspect.signature(model).parameters.values()
            self._has_variadic_arguments = False
            self._varnames = [parameter.name for parameter in parameters]
            self._defaults = [parameter.default for parameter in parameters]

    parser = Parser(lambda x, scale=2: None)
    assert parser._varnames == ["x", "scale"]
    assert parser((X,), {}).asTuple() == (X, 2)
    assert parser((), {"scale": 3, "x": X}).asTuple() == (X, 3)
    with pytest.raises(poptorch.Error, match="x missing"):
        parser((), {})


class Swap:
    log = []

    def __init__(self):
        self.plain = torch.special.entr

    def replace(self):
        Swap.log.append("replace")
        torch.special.entr = lambda x: x + 5

    def restore(self):
        Swap.log.append("restore")
        torch.special.entr = self.plain


@pytest.fixture
def swap():
    Swap.log.clear()
    _OverwriteContextManager.registerSubsitutionManager(Swap)
    _OverwriteContextManager.registerSubsitutionManager(Swap)
    yield Swap
    poptorch._impl.trace.substitutions._types.remove(Swap)


def entropy(x):
    if x.shape[0] == 1:
        raise RuntimeError("no")
    return torch.special.entr(x)


@pytest.mark.parametrize("rows", [1, 2])
def test_packages_replace_functions_during_a_trace(swap, rows):
    plain = torch.special.entr
    wrapped = poptorch.inferenceModel(entropy)
    with pytest.raises(RuntimeError, match="no") if rows == 1 else contextlib.nullcontext():
        assert torch.equal(wrapped(X[:rows]), X + 5)
    assert swap.log == ["replace", "restore"] and torch.special.entr is plain
    if rows == 2:
        wrapped(X)
        assert len(swap.log) == 2


def test_a_replacement_that_fails_is_undone(swap):
    class Failing(Swap):
        def replace(self):
            raise ValueError("cannot replace")

    _OverwriteContextManager.registerSubsitutionManager(Failing)
    try:
        with pytest.raises(ValueError, match="cannot replace"):
            poptorch.inferenceModel(entropy)(X)
    finally:
        poptorch._impl.trace.substitutions._types.remove(Failing)
    assert swap.log == ["replace", "restore", "restore"]


def test_the_error_without_an_executable():
    with pytest.raises(poptorch.Error, match=NO_EXECUTABLE_ERR):
        training()[1].copyWeightsToHost()


class Pair:
    def __init__(self, *tensors):
        self.tensors = tensors


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield from struct.tensors

    def reconstruct(self, original_structure, tensor_iterator):
        return Pair(*[next(tensor_iterator) for _ in original_structure.tensors])


def test_parsers_of_types():
    assert _utils.getCustomParser(Pair(X)) is None and not _utils.hasCustomParser(Pair(X))
    parser = PairParser()
    poptorch.registerCustomArgParser(Pair, parser)
    try:
        assert _utils.getCustomParser(Pair(X)) is parser and _utils.hasCustomParser(Pair(X))
        assert not _utils.hasCustomParser(X)
    finally:
        poptorch.registerCustomArgParser(Pair, None)


def test_tensors_of_a_trace():
    seen = []

    def forward(x):
        y = x + 1
        seen.append((_utils.getIpuTensorId(x), _utils.getIpuTensorId(y), _utils.on_ipu(y)))
        assert _utils.getIpuTensorId(x) == seen[-1][0]
        return y

    poptorch.inferenceModel(forward)(X)
    first, second, on_ipu = seen[0]
    assert isinstance(first, int) and first != second and on_ipu and not _utils.on_ipu(X)
    with pytest.raises(poptorch.Error, match="expected a tensor of the traced model"):
        _utils.getIpuTensorId(X)


def test_a_loader():
    options = poptorch.Options().deviceIterations(2)
    data = [torch.zeros(3)] * 8
    loader = poptorch.DataLoader(options, data, batch_size=2)
    assert not loader._is_user_batch_sampler_set and loader._rebatched_size is None
    assert loader._combined_batch_size == 4
    plain = poptorch.DataLoader(options, data, batch_size=None)
    assert not plain._is_user_batch_sampler_set and plain._combined_batch_size is None
    batches = torch.utils.data.BatchSampler(range(8), 2, False)
    loader = poptorch.DataLoader(
        options, data, batch_sampler=batches, auto_distributed_partitioning=False
    )
    assert loader._is_user_batch_sampler_set
    rebatched = poptorch.DataLoader(
        options, data, 2, mode=poptorch.DataLoaderMode.AsyncRebatched, rebatched_worker_size=1
    )
    assert rebatched._rebatched_size == 4
    rebatched.terminate()
