"""The compiler and emulator without torch."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray
from poptorch_core.errors import Error

__all__: list[str] = [
    "Error",
    "Executable",
    "GradientGraph",
    "Graph",
    "Module",
    "Op",
    "Option",
    "Value",
    "autodiff",
    "check_environment",
    "compile",
    "environment",
    "environment_flag",
    "environment_number",
    "environment_text",
    "load",
    "log",
    "log_level",
    "op_names",
    "option_table",
    "parse",
    "run_pass",
    "set_log_level",
]

class Option:
    """An option of a line of the description of an execution."""

    @property
    def allowed(self) -> str:
        """The range, or the words, as text."""

    @property
    def changes(self) -> bool:
        """Also after compiling."""

    @property
    def default(self) -> Any: ...
    @property
    def doc(self) -> str: ...
    @property
    def keyword(self) -> str:
        """Of its line; 'host': beside the program."""

    @property
    def least(self) -> int | None: ...
    @property
    def most(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def setter(self) -> str:
        """What of poptorch.Options sets it: 'Group.setter(argument=default)'."""

    @property
    def type(self) -> str: ...
    @property
    def words(self) -> list[str]: ...

class Module:
    """A module of the IR."""

    def __init__(self) -> None: ...
    def __str__(self) -> str: ...
    def add_graph(self, name: str, /) -> Graph: ...
    def add_remote_buffer(
        self, name: str, row_type: tuple[str, Sequence[int]], rows: int, /
    ) -> None: ...
    def add_state(
        self,
        name: str,
        type: tuple[str, Sequence[int]],
        kind: str = "parameter",
        group_size: int = 0,
        group_stride: int = 1,
    ) -> None:
        """Declares a state slot; groups of `group_size` replicas share a value, 0: all."""

    def add_stream(
        self, name: str, type: tuple[str, Sequence[int]], to_device: bool, /
    ) -> None: ...
    def clone(self) -> Module: ...
    def equals(self, other: Module, /) -> bool: ...
    def text(self, locations: bool = False) -> str: ...
    def verify(self) -> None: ...
    @property
    def graphs(self) -> list[Graph]: ...

class Value:
    """A value of a graph."""

    name: str

    @property
    def by_reference(self) -> bool: ...
    @property
    def index(self) -> int: ...
    @property
    def producer(self) -> Op | None: ...
    @property
    def type(self) -> tuple[str, list[int]]: ...

class Op:
    """An op of a graph."""

    def calls(self, graph: Graph, /) -> bool: ...
    def set_gradient(self, graph: Graph, /) -> None:
        """Of a call: the graph that autodiff is to call instead of differentiating the called
        one.
        """

    @property
    def attrs(self) -> dict[str, str]: ...
    @property
    def id(self) -> int: ...
    @property
    def ipu(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def operands(self) -> list[Value]: ...
    @property
    def popart_type(self) -> str: ...
    @property
    def results(self) -> list[Value]: ...
    @property
    def scope(self) -> str: ...

class Graph:
    """A graph of a module."""

    def add_input(
        self, type: tuple[str, Sequence[int]], name: str, by_reference: bool = False
    ) -> Value: ...
    def constant(self, array: ndarray, dtype: str, /) -> Value:
        """A constant of the array's elements."""

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        attrs: dict[str, Any] = {},
        ipu: int = -1,
        io_tiles: bool = False,
        scope: str = "",
    ) -> Op:
        """Adds an op at the end, checked and with inferred result types."""

    def scalar(self, dtype: str, value: float, /) -> Value:
        """A constant without dimensions."""

    def set_outputs(self, values: Sequence[Value], /) -> None: ...
    def variable(self, slot: str, /) -> Value:
        """A declared state slot."""

    @property
    def inputs(self) -> list[Value]: ...
    @property
    def name(self) -> str: ...
    @property
    def ops(self) -> list[Op]: ...
    @property
    def outputs(self) -> list[Value]: ...

class GradientGraph:
    """A gradient graph and what it takes and gives: pairs of (is a gradient, value of the
    forward graph).
    """

    @property
    def graph(self) -> Graph: ...
    @property
    def inputs(self) -> list[tuple[bool, Value]]: ...
    @property
    def outputs(self) -> list[tuple[bool, Value]]: ...

class Executable:
    """A compiled module with the device memory of its state."""

    def anchored(self) -> list[tuple[int, str]]: ...
    def forget_partial_state(self) -> bool: ...
    def random_state(self) -> tuple[int, int]: ...
    def read_remote(self, name: str, replica: int, entry: int) -> ndarray:
        """Row `entry` of a remote buffer of a replica."""

    def read_state(self, name: str) -> ndarray: ...
    def report(self) -> dict[str, Any]: ...
    def run(self, inputs: Sequence[ndarray], /) -> list[ndarray]:
        """One step on dense arrays of input_types; returns those of output_types."""

    def set_random_state(self, arg0: tuple[int, int], /) -> None: ...
    def text(self, form: str, locations: bool = False) -> str: ...
    def write_remote(self, name: str, replica: int, entry: int, row: ndarray) -> None: ...
    def write_state(self, name: str, value: ndarray) -> None: ...
    @property
    def input_types(self) -> list[tuple[str, list[int]]]: ...
    @property
    def output_types(self) -> list[tuple[str, list[int]]]: ...
    @property
    def states(self) -> list[str]: ...

def autodiff(forward: Graph, provided: Sequence[int], required: Sequence[Value]) -> GradientGraph:
    """The gradient graph of `forward`: given the gradients of its outputs `provided`
    (indices), those of its inputs `required`. Adds outputs to `forward`.
    """

def check_environment() -> None: ...
def compile(
    module: Module,
    lines: Sequence[tuple[str, str, dict]] = [],
    host: dict = {},
    progress: Callable[[int, int, str], None] | None = None,
) -> Executable:
    """Compiles a copy of the module, all the way. `lines` of the description of how it is
    executed are added to its own. `progress` is called with (steps done, steps in all,
    name of the step).
    """

def environment() -> list[tuple[str, str, str, list[str], tuple[int, int], bool]]:
    """(name, kind, doc, allowed values, (least, most), whether it has an effect) of every variable;
    kinds: "text", "choice", "flag", "number", "names"."""

def environment_flag(name: str, /) -> bool: ...
def environment_number(name: str, otherwise: int, /) -> int: ...
def environment_text(name: str, otherwise: str = "") -> str: ...
def load(text: str | bytes, host: dict = {}) -> Executable:
    """Runs a program from its text, Executable.text('program'). Its state begins as the
    program says or at 0: write_state gives it values.
    """

def log(level: int, text: str, /) -> None: ...
def log_level() -> int: ...
def op_names() -> list[str]: ...
def option_table() -> list[Option]: ...
def parse(text: str | bytes, origin: str = "text") -> Module:
    """Reads a module from its text."""

def run_pass(module: Module, name: str, lines: Sequence[tuple[str, str, dict]] = []) -> None:
    """Runs one pass, by name, on the module in place."""

def set_log_level(level: int, /) -> None: ...
