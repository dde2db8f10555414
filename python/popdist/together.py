"""What instances do together, and the life of what joins them."""

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
# Where instances meet stays: who joins again may be there before others have left.
_meeting: "Meeting | None" = None
_joined = 0  # how often this process has joined the others; theirs are alike
_adopted: tuple[Instance, Mapping[str, str]] | None = None
_members: contextvars.ContextVar[tuple[int, ...] | None] = contextvars.ContextVar(
    "popdist_members", default=None
)


def init() -> None:
    """Joins the instances; every one calls it. Called again, it does nothing.

    Raises poptorch.Error that names the instances that do not come.
    """
    initializeBackend()
    registerDefaultBackend()


def initializeBackend() -> None:
    """The first step of init(): looks at the environment."""
    global _initialized
    with _lock:
        count = this_instance().count
        if not _initialized and count > 1:
            from popdist.foreign import warn_about_mpi4py

            warn_about_mpi4py(count)
        _initialized = True


def registerDefaultBackend() -> None:
    """The second step of init(): meets the others."""
    group()


def registerBackend(path: str) -> None:
    """Refused: a foreign backend is native code for another library."""
    raise Error(
        f"[popdist] the backend {path!r} cannot be used: backends of the SDK are libraries for "
        "its own engine, and instances are joined by torch.distributed here. Call "
        "popdist.init()."
    )


def isBackendInitialized() -> bool:
    """Whether init() was called, and finalizeBackend() was not."""
    return _initialized


def finalizeBackend() -> None:
    """Leaves the others; init() joins them again. Done at the program's end as well."""
    global _adopted, _group, _initialized
    with _lock:
        left, _group, _adopted = _group, None, None
        _initialized = False
        if left is not None:
            left.close()


def group() -> "Group | None":
    """What joins the instances, made when it is first asked for; None for a single one."""
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
    """Takes this process for one of `count` with so many replicas each, as its program says, where
    no launcher of popdist has started it. Raises poptorch.Error where it cannot meet the others."""
    global _adopted
    with _lock:
        if _adopted is None and not is_set():
            from popdist import foreign

            _adopted = foreign.instance_of(index, count, replicas)


def here() -> Instance:
    """What this process is: as its launcher says, or as it was adopted."""
    return this_instance() if _adopted is None else _adopted[0]


def members() -> tuple[int, ...]:
    """The instances that collectives concern now: all, or those of execute_on_instances."""
    inside = _members.get()
    return tuple(range(here().count)) if inside is None else inside


def joined() -> dict[str, Any]:
    """What the compiler is told of what joins several instances. Waits for the others."""
    from popdist import store

    found = group()
    assert found is not None
    return {"fabric": found.fabric(), "instance_timeout": store.timeout() or 0.0}


def execute_on_instances(
    instances: Collection[int], func: Callable[..., _Result], *args: Any, **kwargs: Any
) -> _Result | None:
    """The instances of a set run `func` and get its result; the others go on with None.

    Within it, barriers and collectives concern that set alone. Raises ValueError for numbers that
    no instance (of the set around it) has.
    """
    around = members()
    wanted = tuple(sorted(set(instances)))
    if not wanted or not set(wanted) <= set(around):
        raise ValueError(
            f"[popdist] execute_on_instances({set(instances)}, ...): instances are {list(around)}. "
            "Name some of them."
        )
    if here().index not in wanted:
        return None
    token = _members.set(wanted)
    try:
        return func(*args, **kwargs)
    finally:
        _members.reset(token)
