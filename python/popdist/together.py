"""Joint operations of the instances, and the lifetime of their connection."""

import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from popdist.instance import Instance, is_set, this_instance
from poptorch_core.errors import Error

if TYPE_CHECKING:
    from popdist.group import Group
    from popdist.store import Meeting

_Result = TypeVar("_Result")

_lock = threading.RLock()
_group: "Group | None" = None
_initialized = False
# The meeting is kept: an instance may join again before others have left.
_meeting: "Meeting | None" = None
_joined = 0  # how often this process has joined the others; equal in all instances
_adopted: tuple[Instance, Mapping[str, str]] | None = None
_members: contextvars.ContextVar[tuple[int, ...] | None] = contextvars.ContextVar(
    "popdist_members", default=None
)


def init() -> None:
    """Joins the instances; every instance calls it. A second call has no effect.

    Raises:
        poptorch.Error: Some instances do not come; the message names them.
    """
    initializeBackend()
    registerDefaultBackend()


def initializeBackend() -> None:
    """Does the first step of init(): reads the environment."""
    global _initialized
    with _lock:
        count = this_instance().count
        if not _initialized and count > 1:
            from popdist.foreign import warn_about_mpi4py

            warn_about_mpi4py(count)
        _initialized = True


def registerDefaultBackend() -> None:
    """Does the second step of init(): connects to the other instances."""
    group()


def registerBackend(path: str) -> None:
    """Raises poptorch.Error: a foreign backend is native code for another library.

    Args:
        path: The library.
    """
    raise Error(
        f"[popdist] the backend {path!r} cannot be used: backends of the SDK are libraries for "
        "the SDK's engine, and torch.distributed joins the instances here. Call popdist.init()."
    )


def isBackendInitialized() -> bool:
    """Returns whether init() was called, and finalizeBackend() was not."""
    return _initialized


def finalizeBackend() -> None:
    """Disconnects from the others; init() joins them again. Runs also at the program's end."""
    global _adopted, _group, _initialized
    with _lock:
        left, _group, _adopted = _group, None, None
        _initialized = False
        if left is not None:
            left.close()


def group() -> "Group | None":
    """Returns the group of all instances, which the first call makes; None for a single one."""
    global _adopted, _group, _initialized, _joined, _meeting
    with _lock:
        if _group is None and here().count > 1:
            from popdist import store
            from popdist.group import Group
            from poptorch_core import _core

            _initialized = True
            environ = os.environ if _adopted is None else _adopted[1]
            _core.meet_fault("join", "meeting")
            try:
                _meeting = _meeting or store.connect(here(), environ)
                _group = Group(here(), _meeting.named(str(_joined)), environ)
            except BaseException:
                _adopted = None
                raise
            _joined += 1
            atexit.register(finalizeBackend)
        return _group


def adopt(index: int, count: int, replicas: int) -> None:
    """Makes this process one of `count` instances, if popdist's launcher has not started it.

    Args:
        index: The number of this instance, according to its program.
        count: The number of instances.
        replicas: The replicas of each instance.

    Raises:
        poptorch.Error: It cannot meet the others.
    """
    global _adopted
    with _lock:
        if _adopted is None and not is_set():
            from popdist import foreign

            _adopted = foreign.instance_of(index, count, replicas)


def here() -> Instance:
    """Returns this process's instance, from its launcher or from adopt()."""
    return this_instance() if _adopted is None else _adopted[0]


def members() -> tuple[int, ...]:
    """Returns the instances that take part in collectives: all, or execute_on_instances' set."""
    inside = _members.get()
    return tuple(range(here().count)) if inside is None else inside


def joined() -> dict[str, Any]:
    """Returns the compiler's arguments for several instances. Blocks until all have called it."""
    from popdist import store

    found = group()
    assert found is not None
    return {"fabric": found.fabric(), "instance_timeout": store.timeout() or 0.0}


def execute_on_instances(
    instances: Collection[int], func: Callable[..., _Result], *args: Any, **kwargs: Any
) -> _Result | None:
    """Runs `func` on the instances of a set, and returns its result; the others get None at once.

    Inside `func`, barriers and collectives concern only that set.

    Args:
        instances: The numbers of the instances.
        func: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Raises:
        ValueError: A number is not that of an instance (of the surrounding set).
    """
    around = members()
    wanted = tuple(sorted(set(instances)))
    if not wanted or not set(wanted) <= set(around):
        raise ValueError(
            f"[popdist] execute_on_instances({set(instances)}, ...): the instances are "
            f"{list(around)}. Name some of them."
        )
    if here().index not in wanted:
        return None
    token = _members.set(wanted)
    try:
        return func(*args, **kwargs)
    finally:
        _members.reset(token)
