"""Ir: one program, made of a main graph, the graphs that it calls, streams and buffers."""

import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from popdist.instance import this_instance
from popxl._impl import popart_views
from popxl._impl.build_graph import build_graph
from popxl._impl.dot import checkpoint
from popxl._impl.records import ProgramRecord, Replicas, of, positive
from popxl.errors import Error
from popxl.graph import Graph, make_graph
from popxl.replica_grouping import ReplicaGrouping, grouping_from_assignments, make_grouping

_ir_ids = itertools.count()


def _of_launcher() -> Replicas:
    try:
        here = this_instance()
        several = here.count > 1
    except Error as error:
        raise ValueError(f"Ir(replication='popdist'): {error}") from None
    return Replicas(here.local_replicas, several, here.total_replicas, here.offset)


class Ir:
    """A program.

    Args:
        replication: The number of replicas that run it, each with its own data. 'popdist': the
            launcher's number for all instances, of which this process runs a part (1 without a
            launcher).

    Raises:
        ValueError: replication is not a positive int.
    """

    # Weak references, by id.
    _ir_cache: "weakref.WeakValueDictionary[int, Ir]" = weakref.WeakValueDictionary()

    def __init__(self, replication: "int | str" = 1) -> None:
        self._record = ProgramRecord()
        if replication == "popdist":
            self._record.replicas = _of_launcher()
        else:
            self.replication_factor = replication  # type: ignore[assignment]  # checked there
        self._record.id = next(_ir_ids)
        self._ir_cache[self._record.id] = self
        self._record.main = make_graph(self, "", "main")
        self._pb_ir.getSessionOptions()  # reads the environment now

    @property
    def main_graph(self) -> Graph:
        """The graph that a session runs."""
        return self._record.main

    @property
    def num_host_transfers(self) -> int:
        """The most transfers of a stream in one run; 1 unless loops load or store."""
        return self._record.num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"num_host_transfers must be at least 1 but is {value}.")
        self._record.num_host_transfers = value

    @property
    def replication_factor(self) -> int:
        """The number of replicas that run the program, in all instances.

        Setting it raises RuntimeError after a Session was made, and ValueError unless it is a
        positive int that the number of instances divides.
        """
        return self._record.replicas.total

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._record.has_session:
            raise RuntimeError("The replication factor cannot change once a Session exists.")
        self._record.replicas.resize(positive(value))

    @property
    def instance_replication_factor(self) -> int:
        """The number of replicas of this process."""
        return self._record.replicas.here

    @property
    def id(self) -> int:
        """The number of the Ir in the process, from 0."""
        return self._record.id

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Makes a graph by calling `fn` on its inputs.

        Tensors and TensorSpecs among the arguments become inputs named after the parameters. They
        are by reference if the parameter is annotated `TensorByRef`. Tensors in lists, tuples,
        `*args` and `**kwargs` become `name_0, name_1, ...`. Other values are passed on unchanged.
        The results of `fn` (None, a tensor or tensors) become the outputs.

        Args:
            fn: A function or a `popxl.Module`.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            TypeError: `fn` is not a function; a collection mixes tensors and other values.
            ValueError: The arguments do not fit the signature; a result is not a tensor.
        """
        return build_graph(self, fn, args, kwargs)

    def create_empty_graph(self, name: "str | None" = None) -> Graph:
        """Makes a graph without inputs named `<name>_subgraph(N)`; `name` is "graph" by default.

        Args:
            name: The name of the graph.
        """
        full = f"{name or 'graph'}_subgraph({self._record.next('graph')})"
        return make_graph(self, full, self._record.core_name(full))

    def replica_grouping(self, stride: int = 1, group_size: "int | None" = None) -> ReplicaGrouping:
        """Returns groups of `group_size` replicas, `stride` apart; by default all // stride.

        Args:
            stride: The distance between two replicas of a group.
            group_size: The number of replicas in a group.
        """
        return make_grouping(self._record.replicas.total, stride, group_size)

    def replica_grouping_from_assignments(self, assignments: list[int]) -> ReplicaGrouping:
        """Returns the grouping that puts replica i into group `assignments[i]`.

        Args:
            assignments: The group of each replica.

        Raises:
            ValueError: The number of assignments is not that of the replicas, or groups differ in
                size.
        """
        replicas = self._record.replicas.total
        if len(assignments) != replicas:
            raise ValueError(f"{len(assignments)} assignments were given for {replicas} replicas.")
        return grouping_from_assignments(assignments)

    def get_all_h2d_streams(self) -> set[Any]:
        """Returns the streams to the device, used or not."""
        return {s for s in self._record.streams if of(s).to_device}

    def get_all_d2h_streams(self) -> set[Any]:
        """Returns the streams to the host, used or not."""
        return {s for s in self._record.streams if not of(s).to_device}

    def dot_checkpoint(self, check: str, save_dir: "str | Path | None" = None) -> None:
        """Draws all graphs in Graphviz's language, into `<save_dir>/<check>.dot`.

        It does so only if session option dotChecks contains the check or "ALL". POPART_DOT_CHECKS
        sets the option when the Ir is made. The first check sets an empty option to "ALL".

        Args:
            check: The name of the check.
            save_dir: Becomes session option logDir; by default the working directory.
        """
        options = self._pb_ir.getSessionOptions()
        if save_dir is not None:
            options.logDir = str(save_dir)
        if not options.dotChecks:
            options.dotChecks.add("ALL")
        checkpoint(self, check)

    @property
    def _pb_ir(self) -> Any:
        """PopART's view of the Ir."""
        return popart_views.ir(self)

    @classmethod
    def _from_pb(cls, pb: Any) -> "Ir":
        """Returns the Ir of PopART's view."""
        return pb.user()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"Cannot compare an Ir with {type(other).__name__}.")
        return self is other

    def __hash__(self) -> int:
        return hash(self._record.id)

    def __repr__(self) -> str:
        return f"Ir[id={self._record.id}]"
