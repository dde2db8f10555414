"""The compiler and emulator without torch."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray
from poptorch_core import Error

__all__: list[str] = [
    "COMM_GROUPS",
    "Error",
    "Executable",
    "Execution",
    "Fabric",
    "GradientGraph",
    "Graph",
    "Module",
    "Op",
    "Option",
    "ReplicaGroup",
    "Value",
    "arm_fault",
    "autodiff",
    "cbor",
    "check_environment",
    "compile",
    "custom_attributes",
    "custom_gradient",
    "custom_op_ids",
    "disarm_fault",
    "end_open_line",
    "environment",
    "environment_flag",
    "environment_number",
    "environment_text",
    "group_parameter",
    "has_struck",
    "load",
    "log",
    "log_level",
    "make_shared_fabric",
    "meet_fault",
    "op_names",
    "option_table",
    "parse",
    "register_python_op",
    "report_figures",
    "run_pass",
    "set_line_open",
    "set_log_level",
    "tell_moved_bytes",
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
    def even(self) -> bool:
        """Whether only even numbers are allowed."""

    @property
    def found(self) -> bool:
        """Whether a pass finds it, or it follows from the wrapper: nobody sets it."""

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

class Execution:
    """How a model is executed, before there is a module."""

    def __init__(self, lines: Sequence[tuple[str, str, dict]]) -> None: ...
    def batch_defect(self, input: str, rows: int) -> str:
        """Explains why an input of so many rows cannot be split into micro-batches; empty if
        it can.
        """

    def group_inputs(self, kind: str, size: int) -> None:
        """Sets the groups of replicas that read the same inputs. Raises Error for groups that
        cannot be formed of the replicas.
        """

    @property
    def input_factor(self) -> int:
        """The micro-batches in dimension 0 of an input of one run."""

    @property
    def input_group_size(self) -> int: ...
    @property
    def input_group_stride(self) -> int: ...
    @property
    def input_groups(self) -> int:
        """The groups of replicas that read the same inputs."""

    @property
    def micro_batches(self) -> int:
        """The micro-batches of one replica in one run."""

    @property
    def wrapper_defect(self) -> str:
        """Explains which options a model that is wrapped for inference cannot have; empty if
        there is none.
        """

class ReplicaGroup:
    """Replicas that share a value of a parameter: `size` of them, `stride` apart; size 0:
    all.
    """

    def values(self, replicas: int) -> int:
        """The values on the host; a single one does not add a dimension."""

    @property
    def all_replicas(self) -> bool:
        """Whether the host has a value of each replica, not of each group."""

    @property
    def size(self) -> int: ...
    @property
    def stride(self) -> int: ...

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

    def add_operand(self, arg0: Value, /) -> None:
        """Of a call: what it passes for an input that the called graph got behind the others."""

    def can_take(self, arg0: Value, /) -> bool:
        """Whether the value is there before the op, or can be."""

    def return_inputs(
        self, name: str, body: Graph, operands: Sequence[Value], left: Sequence[tuple[int, Value]]
    ) -> Op:
        """Replaces a call or loop by one that runs a copy, called `name`, of `body`, and also
        gives what is `left` in inputs: (index, value of `body`). Returns the new op.
        """

    def set_gradient(self, graph: Graph) -> None:
        """Of a call: the graph that autodiff is to call instead of differentiating the called
        one; None: it differentiates that.
        """

    @property
    def attrs(self) -> dict[str, str]: ...
    @property
    def bodies(self) -> list[Graph]:
        """The graphs that it runs; of a branch, the first is for true."""

    @property
    def gradient(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def ipu(self) -> int: ...
    @property
    def labels(self) -> str: ...
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
    @property
    def stage(self) -> int: ...

class Graph:
    """A graph of a module."""

    def add_input(
        self, type: tuple[str, Sequence[int]], name: str, by_reference: bool = False
    ) -> Value: ...
    def constant(self, array: ndarray, dtype: str, /) -> Value:
        """A constant of the array's elements."""

    def copy_ops_to(self, arg0: Graph, /) -> list[tuple[Value, Value]]:
        """Copies all ops of a graph without inputs; returns each result with its copy."""

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

    def emit_custom(
        self,
        id: tuple[str, str, int],
        attributes: str,
        operands: Sequence[Value],
        ipu: int = -1,
        io_tiles: bool = False,
        scope: str = "",
    ) -> Op:
        """Adds an op of a library: (domain, name, version), the text of its attributes."""

    def erase_ops(self) -> None:
        """Leaves the graph without ops and outputs."""

    def expand_call(self, id: int) -> None:
        """Puts the ops of a called graph in the place of the call with this id."""

    def give_memory(self, value: Value, slot: str) -> Value:
        """Puts a value into a declared state slot where it is made: its users take that.
        Returns what stands for it.
        """

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
    def attach(self) -> None: ...
    def check_memory(self, limit: str) -> None:
        """What was left undone by the host option late_memory_check: warns of a program that
        does not fit, or raises Error, as the host option memory_limit says.
        """

    def exchange(self, array: ndarray, owners: Sequence[int], what: str) -> None:
        """Of an array's rows, in place, each comes from the instance that owns it. All
        instances call it. `what`: for errors.
        """

    def forget_partial_state(self) -> bool: ...
    def form_lines(self) -> dict:
        """By form, the lines of its ops, with their ids."""

    def has_failed(self) -> bool: ...
    def inspect(self) -> dict:
        """What the program holds and does, as columns: see poptorch_core.reports.data."""

    def random_state(self) -> tuple[int, int]: ...
    def read_remote(self, name: str, replica: int, entry: int) -> ndarray:
        """Row `entry` of a remote buffer of a replica."""

    def read_state(self, name: str) -> ndarray: ...
    def remote_groups(self, name: str) -> list[tuple[int, int]]:
        """Groups of the slot that have no replica in this process: their rows of read_state
        are 0. As (group, instance of its first replica).
        """

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
    def replicas(self) -> tuple[int, int, int]:
        """Of this process: (the first, how many, of how many in all)."""

    @property
    def states(self) -> list[str]: ...

class Fabric:
    """Joins this process to the other instances of a program; as host['fabric']."""

    def end_of(self, instance: int) -> str:
        """How it is known that an instance has ended; '': it may live."""

    def leave(self) -> None:
        """Leaves the others, who may still take what was sent, for some seconds."""

    def name(self, instance: int) -> str:
        """'instance 1 on node7 (process 4711)'."""

    @property
    def instance(self) -> int: ...
    @property
    def instances(self) -> int: ...

def arm_fault(text: str) -> int:
    """Arms a fault, of which POPTORCH_FAULT holds the text; gives its number."""

def autodiff(forward: Graph, provided: Sequence[int], required: Sequence[Value]) -> GradientGraph:
    """The gradient graph of `forward`: given the gradients of its outputs `provided`
    (indices), those of its inputs `required`. Adds outputs to `forward`.
    """

def cbor(json: str) -> bytes:
    """CBOR (RFC 8949) of a text that is JSON."""

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

def custom_attributes(attributes: dict) -> str:
    """The text of attributes of a custom op: floats, ints and strings, alone or in lists."""

def custom_gradient(
    domain: str,
    name: str,
    version: int,
    attributes: str,
    inputs: Sequence[tuple[str, Sequence[int]]],
) -> tuple[tuple[str, str, int], str, list[tuple[int, int]], list[int]] | None:
    """The gradient op of a use of a custom op: its (domain, name, version), its
    attributes, its inputs as (0: input, 1: output, 2: gradient of output; index) and of
    which input each of its outputs is the gradient.
    """

def custom_op_ids() -> list[tuple[str, str, int]]:
    """(domain, name, version) of the registered custom ops."""

def disarm_fault(arg0: int, /) -> None: ...
def end_open_line() -> bool: ...
def environment() -> list[tuple[str, str, str, list[str], tuple[int, int], bool]]:
    """(name, kind, doc, allowed values, (least, most), whether it has an effect) of every variable;
    kinds: "text", "choice", "flag", "number", "names"."""

def environment_flag(name: str, /) -> bool: ...
def environment_number(name: str, otherwise: int, /) -> int: ...
def environment_text(name: str, otherwise: str = "") -> str: ...
def group_parameter(
    name: str, shape: Sequence[int], kind: str, size: int, all_replicas: bool, replicas: int
) -> ReplicaGroup:
    """The groups of replicas that share a value of a parameter, of which the host holds a
    tensor of this shape. Raises Error for groups and shapes that do not fit.
    """

def has_struck(arg0: int, /) -> bool: ...
def load(text: str | bytes, host: dict = {}) -> Executable:
    """Runs a program from its text, Executable.text('program'). Its state begins as the
    program says or at 0: write_state gives it values.
    """

def log(level: int, text: str, /) -> None: ...
def log_level() -> int: ...
def make_shared_fabric(
    place: int | str,
    instance: int,
    instances: int,
    timeout: float = 300.0,
    numbers: Sequence[int] = [],
) -> Fabric:
    """Joins this process, as `instance` of `instances`, to the others of this host that
    come to the same place: the path of a new file in a folder in memory, or an open,
    empty file of memfd_create. Waits until all are there, at most `timeout` seconds, 0:
    for ever. `numbers`: what messages call the instances, where they have others among
    all.
    """

def meet_fault(point: str, place: str = "", index: int = 0) -> None:
    """Called once for each occurrence of a point: the fault that is armed for it strikes."""

def op_names() -> list[str]: ...
def option_table() -> list[Option]: ...
def parse(text: str | bytes, origin: str = "text") -> Module:
    """Reads a module from its text."""

def register_python_op(
    id: tuple[str, str, int],
    inputs: int,
    outputs: int,
    infer: Callable,
    compute: Callable,
    gradient: tuple[str, Sequence[tuple[int, int]], Sequence[int]] | None,
) -> None:
    """A custom op of Python's functions, with any attributes: infer(types, attributes) →
    types, compute([(element type, array)], attributes, replica, replicas) → arrays,
    where a type is (element type, shape). gradient: the name of its gradient op, of the
    same domain and version, with the inputs and outputs of custom_gradient.
    """

def report_figures() -> list[tuple[str, str, str, str, str]]:
    """The figures of report(), as (list whose entries have it, name, type, unit, doc)."""

def run_pass(module: Module, name: str, lines: Sequence[tuple[str, str, dict]] = []) -> None:
    """Runs one pass, by name, on the module in place."""

def set_line_open(arg0: bool, /) -> None: ...
def set_log_level(level: int, /) -> None: ...
def tell_moved_bytes(listener: Any) -> None:
    """Of work of this thread that moves many bytes, from here on: called with how many
    more.
    """

COMM_GROUPS: list[str] = ["All", "Consecutive", "Orthogonal", "NoGrouping"]
