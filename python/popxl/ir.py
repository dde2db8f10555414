"""Ir: one program, that is a main graph and the graphs it calls, with streams and buffers."""

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from poptorch_core import _core
from popxl.build_graph import build_graph
from popxl.errors import Error, unsupported
from popxl.graph import Graph
from popxl.replica_grouping import ReplicaGrouping

_FIRST_OP_ID = 100
_ir_ids = itertools.count()


def _from_launcher(name: str, default: int) -> int:
    try:
        return _core.environment_number(name, default)
    except Error:
        given = _core.environment_text(name)
        raise ValueError(
            f"Ir(replication='popdist') takes a positive int from {name}: {given!r}."
        ) from None


def _replicas_of_launcher() -> int:
    total = _from_launcher("POPDIST_NUM_TOTAL_REPLICAS", 1)
    local = _from_launcher("POPDIST_NUM_LOCAL_REPLICAS", total)
    if local != total:
        raise unsupported(
            f"Ir(replication='popdist') with {local} of {total} replicas a process",
            f"Start one process, which runs all {total} replicas.",
        )
    return total


class Ir:
    """A program.

    replication: how many replicas run it, each with its own data; 'popdist' takes the number from
        the launcher's POPDIST_NUM_TOTAL_REPLICAS (1 without). UnsupportedError when it spreads the
        replicas over several processes, ValueError when it gives no positive int.
    """

    def __init__(self, replication: "int | str" = 1) -> None:
        if replication == "popdist":
            replication = _replicas_of_launcher()
        self._has_session = False
        self.replication_factor = replication  # type: ignore[assignment]  # checked there
        self._id = next(_ir_ids)
        self._num_host_transfers = 1
        self._module = _core.Module()
        self._counters: dict[str, Any] = {"op": itertools.count(_FIRST_OP_ID)}
        self._core_names: set[str] = {"main"}
        self._streams: list[Any] = []
        self._module_streams: list[Any] = []  # those in use, as the compiler numbers them
        self._buffers: list[Any] = []
        self._graphs: list[Graph] = []
        self._slots: dict[str, Any] = {}  # of state: name → variable
        self._hidden: dict[str, Any] = {}  # of state that no variable stands for: name → data
        self._main = Graph._make(self, "main", "main")
        self._graphs.append(self._main)

    @property
    def main_graph(self) -> Graph:
        """The graph that a session runs."""
        return self._main

    @property
    def num_host_transfers(self) -> int:
        """How often each stream transfers in one run; 1 unless loops load or store."""
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"num_host_transfers must be at least 1 but is {value}.")
        self._num_host_transfers = value

    @property
    def replication_factor(self) -> int:
        """How many replicas run the program.

        RuntimeError when set after a Session was made, ValueError unless it is a positive int.
        """
        return self._replication

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._has_session:
            raise RuntimeError("The replication factor cannot change once a Session exists.")
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"replication must be a positive int but is {value!r}.")
        self._replication = value

    @property
    def instance_replication_factor(self) -> int:
        """The replicas of this process: all of them."""
        return self._replication

    @property
    def id(self) -> int:
        """Counts the Irs of the process from 0."""
        return self._id

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """A graph made by calling `fn` (a function or a `popxl.Module`) on its inputs.

        Tensors and TensorSpecs among the arguments become inputs named after the parameters, by
        reference where the parameter is annotated `TensorByRef`; tensors in lists, tuples, `*args`
        and `**kwargs` become `name_0, name_1, ...`. Everything else is passed on. What `fn`
        returns (None, a tensor or tensors) becomes the outputs.

        TypeError: `fn` is no function; a collection mixes tensors and other values.
        ValueError: the arguments do not fit the signature; a result is not a tensor.
        """
        return build_graph(self, fn, args, kwargs)

    def create_empty_graph(self, name: "str | None" = None) -> Graph:
        """A graph without inputs, called `<name>_subgraph(N)`; `name` is "graph" by default."""
        full = f"{name or 'graph'}_subgraph({self._next('graph')})"
        graph = Graph._make(self, full, self._core_name(full))
        self._graphs.append(graph)
        return graph

    def replica_grouping(self, stride: int = 1, group_size: "int | None" = None) -> ReplicaGrouping:
        """Groups of `group_size` replicas, `stride` apart; all replicas // stride by default."""
        return ReplicaGrouping._make(self._replication, stride, group_size)

    def replica_grouping_from_assignments(self, assignments: list[int]) -> ReplicaGrouping:
        """The grouping that puts replica i into group `assignments[i]`."""
        return ReplicaGrouping._from_assignments(self._replication, assignments)

    def get_all_h2d_streams(self) -> set[Any]:
        """The streams into the device that some op uses."""
        return {s for s in self._streams if s._used and s._to_device}

    def get_all_d2h_streams(self) -> set[Any]:
        """The streams out of the device that some op uses."""
        return {s for s in self._streams if s._used and not s._to_device}

    def dot_checkpoint(self, check: str, save_dir: "str | Path | None" = None) -> None:
        """Draws all graphs in Graphviz's language, into `<save_dir>/<check>.dot`.

        save_dir: the working directory by default; it is made if need be.
        """
        from popxl.dot import dot_text

        folder = Path(save_dir) if save_dir is not None else Path.cwd()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{check}.dot").write_text(dot_text(self))

    @functools.cached_property
    def _pb_ir(self) -> Any:
        """The Ir as PopART shows it."""
        from popart._internal.ir import Ir as View

        return View(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"Cannot compare an Ir with {type(other).__name__}.")
        return self is other

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"Ir[id={self._id}]"

    def _next(self, what: str) -> int:
        return next(self._counters.setdefault(what, itertools.count()))

    def _core_name(self, name: str) -> str:
        """A name for the compiler: letters, digits and points, used once in this Ir."""
        base = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_") or "t"
        unique, number = base, 0
        while unique in self._core_names:
            number += 1
            unique = f"{base}_{number}"
        self._core_names.add(unique)
        return unique
