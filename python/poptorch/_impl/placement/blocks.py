"""Annotations that divide a model into blocks: Block, BeginBlock, BlockFunction.

Outside of a trace they do nothing. In a trace, the current BlockRecorder gets a block's place from
the strategy and passes it to the tracer, which marks the ops that follow.
"""

import contextlib
import contextvars
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from poptorch import _native
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.placement.strategies import ExecutionStrategy, Place, is_ipu
from poptorch._impl.weights import members
from poptorch._logging import logger_of
from poptorch_core import Error

logger = logger_of(__name__)

_recorder: contextvars.ContextVar["BlockRecorder | None"] = contextvars.ContextVar(
    "poptorch_blocks", default=None
)
# BeginBlocks are numbered at their creation: blocks must begin in that order.
_numbers = itertools.count()


class _Begun(NamedTuple):
    """A block of the current trace."""

    place: Place
    numbers: tuple[int, int]  # `count` and `first` of ExecutionStrategy.place()
    line: str


class BlockRecorder:
    """The blocks of one trace, with their places."""

    def __init__(self, strategy: ExecutionStrategy) -> None:
        self._strategy = strategy
        self._auto_ids = 0
        self._begun: dict[str, _Begun] = {}
        self._hooks: list[BlockHook] = []

    def reset_ids(self) -> None:
        self._auto_ids = 0

    def begin(
        self,
        user_id: object,
        ipu_id: int | None,
        scoped: bool,
        id_before: str = "",
        written_at: str = "",
    ) -> str:
        """Begins a block for the ops that follow; returns its id.

        id_before: the id that it got earlier in this trace. written_at: the line for messages;
        default: the current line of user code.
        """
        line = written_at or user_location()
        name = id_before if user_id is None else str(user_id)
        if not name and user_id is None:
            name = str(self._auto_ids)
            self._auto_ids += 1
        begun = self._begun.get(name)
        if begun is None:
            # Without scopes, code before the first block is stage 0.
            numbers = (len(self._begun), 0 if scoped else 1)
            place = self._strategy.place(name, ipu_id, *numbers)
            begun = self._begun[name] = _Begun(place, numbers, line)
        elif ipu_id is not None:
            self._check_again(name, ipu_id, begun, line)
        place = begun.place
        logger.debug(
            f"Starting block id={name} stage={place.stage} phase={place.phase} ipu={place.ipu}"
        )
        _native.set_block(*place, name, scoped)
        return name

    def _check_again(self, user_id: str, ipu_id: int, begun: _Begun, line: str) -> None:
        ipu = begun.place.ipu
        if self._strategy.place(user_id, ipu_id, *begun.numbers).ipu != ipu:
            raise Error(
                f"[partition] block '{user_id}' began on IPU {ipu} ({begun.line}) and begins again "
                f"with ipu_id={ipu_id} ({line}). A block is on one IPU: pass the same "
                "ipu_id, or use another user_id there."
            )

    def end(self) -> None:
        _native.set_block(-1, -1, -1, "", True)

    def begin_layer(self, hook: "BlockHook") -> None:
        if hook not in self._hooks:
            if self._hooks and self._hooks[-1].number > hook.number:
                raise Error(
                    f"[partition] {hook.describe()} begins after {self._hooks[-1].describe()}, but "
                    "its BeginBlock was written first. Write the BeginBlocks in the order in which "
                    "the layers run."
                )
            self._hooks.append(hook)
        try:
            hook.begin(self)
        except AssertionError as error:
            raise AssertionError(f"{error} The block belongs to {hook.describe()}.") from None


@contextlib.contextmanager
def recording(strategy: ExecutionStrategy, model) -> Iterator[BlockRecorder]:
    """Records blocks for `strategy` in the body."""
    recorder = BlockRecorder(strategy)
    if isinstance(model, torch.nn.Module):
        for _, module in members.named_modules(model):
            for hook in module._forward_pre_hooks.values():
                if isinstance(hook, BlockHook):
                    hook.entered_as = ""
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def _running() -> BlockRecorder | None:
    return _recorder.get() if _native.is_tracing() else None


def _check_ids(user_id: object, ipu_id: int | None) -> None:
    block = "a block without id" if user_id is None else f"block '{user_id}'"
    if ipu_id is not None and not is_ipu(ipu_id):
        raise AssertionError(
            f"An ipu_id is a number from 0, not {ipu_id!r}: {block} ({user_location()}). Pass an "
            "IPU's number, or leave it out and name the IPU in the execution strategy."
        )


class Block(torch.nn.Module):
    """A context manager for the ops of one block.

    After it, no block is active. It does nothing when the model runs on the host.
    """

    def __init__(self, user_id: object = None, ipu_id: int | None = None) -> None:
        """Creates a block.

        Args:
            user_id: The block's name, or an object whose str() is the name. Blocks without a name
                are called "0", "1", ... in their order.
            ipu_id: The IPU that the block runs on. The execution strategy may override it.

        Raises:
            AssertionError: `ipu_id` is not the number of an IPU.
        """
        super().__init__()
        _check_ids(user_id, ipu_id)
        self._user_id = user_id
        self._ipu_id = ipu_id

    @staticmethod
    def useAutoId() -> None:
        """Restarts the automatic ids at "0". Call it at the beginning of forward."""
        if recorder := _running():
            recorder.reset_ids()

    @staticmethod
    def start(user_id: object = None, ipu_id: int | None = None) -> None:
        """Begins a block that lasts until the next one begins.

        Args:
            user_id: See Block.
            ipu_id: See Block.
        """
        _check_ids(user_id, ipu_id)
        if recorder := _running():
            recorder.begin(user_id, ipu_id, scoped=False)

    def __enter__(self) -> "Block":
        if recorder := _running():
            recorder.begin(self._user_id, self._ipu_id, scoped=True)
        return self

    def __exit__(self, *_: object) -> None:
        if recorder := _running():
            recorder.end()

    def extra_repr(self) -> str:
        return f"{self._user_id!r}, ipu_id={self._ipu_id}"


def BlockFunction(user_id: object = None, ipu_id: int | None = None) -> Callable:
    """Returns a decorator that runs a function in a block.

    Args:
        user_id: See Block.
        ipu_id: See Block.

    Raises:
        AssertionError: The decorator is used without arguments in parentheses, or `ipu_id` is not
            the number of an IPU.
    """
    if callable(user_id):
        raise AssertionError(
            f"The id of a block is a name, not {user_id!r} ({user_location()}). Write "
            "@poptorch.BlockFunction(...) with the id, or with () for none."
        )
    _check_ids(user_id, ipu_id)

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def in_block(*args, **kwargs):
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return in_block

    return decorate


class BlockHook:
    """The forward-pre-hook of BeginBlock."""

    def __init__(self, user_id: object, ipu_id: int | None, layer: str = "layer") -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id
        self._layer = layer
        self.number = next(_numbers)
        self.written_at = user_location()
        self.entered_as = ""  # the id in the current trace

    def __call__(self, _module, _inputs) -> None:
        if recorder := _running():
            recorder.begin_layer(self)

    def begin(self, recorder: BlockRecorder) -> None:
        """Begins the block in a trace."""
        self.entered_as = recorder.begin(
            self._user_id, self._ipu_id, False, self.entered_as, self.written_at
        )

    def describe(self) -> str:
        return f"{self!r} of a {self._layer} ({self.written_at})"

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


class LegacyBeginBlockFn(torch.nn.Module):
    """A callable that begins a block when it is called; made by BeginBlock().

    It can be pickled if the callable can.
    """

    def __init__(
        self, layer_to_call: Callable, user_id: object = None, ipu_id: int | None = None
    ) -> None:
        super().__init__()
        self._layer_to_call = layer_to_call
        self._user_id = user_id
        self._ipu_id = ipu_id
        name = getattr(layer_to_call, "__name__", type(layer_to_call).__name__)
        self.register_forward_pre_hook(BlockHook(user_id, ipu_id, name))

    def forward(self, *args, **kwargs):
        """Calls the callable.

        Args:
            *args: Its arguments.
            **kwargs: Its keyword arguments.
        """
        return self._layer_to_call(*args, **kwargs)


def BeginBlock(layer_to_call, user_id: object = None, ipu_id: int | None = None):
    """Begins a block at a layer; it lasts until the next block begins.

    Args:
        layer_to_call: The module at which the block begins, or a callable.
        user_id: See Block.
        ipu_id: See Block.

    Returns:
        The same module, with a forward-pre-hook; or a wrapper of the callable.

    Raises:
        poptorch.Error: The module begins a block already, or the argument is of another type.
        AssertionError: `ipu_id` is not the number of an IPU.
    """
    layer = layer_to_call
    _check_ids(user_id, ipu_id)
    if not isinstance(layer, torch.nn.Module):
        if callable(layer):
            return LegacyBeginBlockFn(layer, user_id, ipu_id)
        raise Error(
            f"BeginBlock takes a module, not {type(layer).__name__}: user_id={user_id!r} "
            f"({user_location()}). Pass the layer at which the block begins."
        )
    if _hooks_of(layer):
        raise Error(
            f"module has already been assigned to a block: {_hooks_of(layer)[0][1].describe()} "
            f"comes before user_id={user_id!r} ({user_location()}). Call "
            "poptorch.removeBlocks(module) between them, or keep one."
        )
    layer.register_forward_pre_hook(BlockHook(user_id, ipu_id, type(layer).__name__))
    return layer


def _hooks_of(module: torch.nn.Module) -> list[tuple[int, BlockHook]]:
    hooks = module._forward_pre_hooks.items()
    return [(key, hook) for key, hook in hooks if isinstance(hook, BlockHook)]


def removeBlocks(module: torch.nn.Module) -> None:
    """Removes the blocks that BeginBlock() added to a module and its submodules.

    Args:
        module: The module whose blocks are removed.
    """
    for each in module.modules():
        for key, _ in _hooks_of(each):
            del each._forward_pre_hooks[key]


def module_repr(module: torch.nn.Module) -> str:
    """Returns torch's repr of a module, with its forward-pre-hooks before each module's name.

    Args:
        module: The module to describe.
    """
    added = []
    for each in module.modules():
        if hooks := [repr(hook) for hook in each._forward_pre_hooks.values()]:
            each.__dict__["_get_name"] = functools.partial(
                str, " ".join([*hooks, each._get_name()])
            )
            added.append(each)
    try:
        return repr(module)
    finally:
        for each in added:
            del each._get_name
