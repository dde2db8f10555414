"""The compiler and emulator without torch."""

from collections.abc import Callable, Mapping, Sequence
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
    "WholeFile",
    "arm_fault",
    "autodiff",
    "cbor",
    "check_environment",
    "compile",
    "contraction_cost",
    "cost_constants",
    "custom_attributes",
    "custom_gradient",
    "custom_op_ids",
    "device_figures",
    "disarm_fault",
    "end_open_line",
    "environment",
    "environment_flag",
    "environment_number",
    "environment_text",
    "exchange_cycles",
    "group_parameter",
    "has_struck",
    "link_cycles",
    "load",
    "log",
    "log_level",
    "make_shared_fabric",
    "meet_fault",
    "op_names",
    "option_table",
    "pair_cycles",
    "parse",
    "register_python_op",
    "replace_constant",
    "report_figures",
    "run_pass",
    "set_line_open",
    "set_log_level",
    "tell_moved_bytes",
    "torch_version",
]

class Option:
    """An option in a line of the description of an execution."""

    @property
    def allowed(self) -> str:
        """The range, or the words, as text."""

    @property
    def changes(self) -> bool:
        """Whether it can change after compilation."""

    @property
    def default(self) -> Any: ...
    @property
    def doc(self) -> str: ...
    @property
    def even(self) -> bool:
        """Whether only even numbers are allowed."""

    @property
    def found(self) -> bool:
        """Whether a pass or the wrapper determines it, so that users do not set it."""

    @property
    def keyword(self) -> str:
        """The keyword of its line; 'host' for an option that is not part of the program."""

    @property
    def least(self) -> int | None: ...
    @property
    def most(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def setter(self) -> str:
        """The setter of poptorch.Options: 'Group.setter(argument=default)'."""

    @property
    def type(self) -> str: ...
    @property
    def words(self) -> list[str]: ...

class Execution:
    """A description of how a model is executed, made before its module."""

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
        """Explains which options an inference model cannot have; empty if all are valid."""

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
        """For a call: appends the operand for an input that was added at the end of the called
        graph.
        """

    def can_take(self, arg0: Value, /) -> bool:
        """Whether the value is defined before the op, or can be moved there."""

    def return_inputs(
        self, name: str, body: Graph, operands: Sequence[Value], left: Sequence[tuple[int, Value]]
    ) -> Op:
        """Replaces a call or loop by one that runs a copy of `body`, called `name`. It also
        returns the final values of the inputs in `left`: (index of the input, value of
        `body`). Returns the new op.
        """

    def set_gradient(self, graph: Graph) -> None:
        """For a call: the graph that autodiff calls instead of differentiating the called
        graph. None: autodiff differentiates the called graph.
        """

    @property
    def attrs(self) -> dict[str, str]: ...
    @property
    def bodies(self) -> list[Graph]:
        """The graphs that the op runs; a branch runs the first if its condition is true."""

    @property
    def cost(self) -> tuple[float, float, bool]:
        """The work of one execution: FLOPs, bytes of operands and results, and whether it runs
        on the matrix units.
        """

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
        """Adds a custom op of a library: `id` is (domain, name, version), `attributes` the
        text of its attributes.
        """

    def erase_ops(self) -> None:
        """Removes all ops and outputs of the graph."""

    def expand_call(self, id: int) -> None:
        """Replaces the call with this id by the ops of the called graph."""

    def give_memory(self, value: Value, slot: str) -> Value:
        """Writes a value into a declared state slot where it is computed; its users read the
        slot. Returns the value that replaces it.
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
    """A gradient graph with its inputs and outputs: pairs of (is a gradient, value of the
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
        """Makes the check that the host option late_memory_check postponed: logs a warning or
        raises Error for a program that does not fit, as the host option memory_limit says.
        """

    def exchange(self, array: ndarray, owners: Sequence[int], what: str) -> None:
        """Replaces each row of an array, in place, by the row of the instance that owns it.
        All instances must call it. `what` names the array in errors.
        """

    def forget_partial_state(self) -> bool: ...
    def form_lines(self) -> dict:
        """The lines of the ops of each IR stage, with their ids."""

    def has_failed(self) -> bool: ...
    def inspect(self) -> dict:
        """The contents and the work of the program as columns: see poptorch_core.reports.data."""

    def random_state(self) -> tuple[int, int]: ...
    def read_remote(self, name: str, replica: int, entry: int) -> ndarray:
        """Row `entry` of a remote buffer of a replica."""

    def read_state(self, name: str) -> ndarray: ...
    def remote_groups(self, name: str) -> list[tuple[int, int]]:
        """The groups of the slot that have no replica in this process, as (group, instance of
        its first replica). Their rows of read_state are 0.
        """

    def report(self) -> dict[str, Any]: ...
    def run(self, inputs: Sequence[ndarray], /) -> list[ndarray]:
        """Runs one step on dense arrays of `input_types` and returns arrays of `output_types`."""

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
        """The replicas of this process: (first, count, count in all processes)."""

    @property
    def states(self) -> list[str]: ...

class Fabric:
    """Connects this process to the other instances of a program. It is passed as
    host['fabric'].
    """

    def end_of(self, instance: int) -> str:
        """The evidence that an instance has ended; '' if it may still run."""

    def leave(self) -> None:
        """Disconnects from the other instances. Waits some seconds for them to receive what
        was sent.
        """

    def name(self, instance: int) -> str:
        """'instance 1 on node7 (process 4711)'."""

    @property
    def instance(self) -> int: ...
    @property
    def instances(self) -> int: ...

class WholeFile:
    """A file that is written under a temporary name and then takes its place."""

    def __init__(self, path: str, tag: str) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...
    def write(self, arg0: memoryview, /) -> None: ...

def arm_fault(text: str) -> int:
    """Arms a fault from a text in the format of POPTORCH_FAULT. Returns its number."""

def autodiff(forward: Graph, provided: Sequence[int], required: Sequence[Value]) -> GradientGraph:
    """Makes the gradient graph of `forward`. It takes the gradients of the outputs
    `provided` (indices) and returns those of the inputs `required`. Adds outputs to
    `forward`.
    """

def cbor(json: str) -> bytes:
    """Converts JSON text to CBOR (RFC 8949)."""

def check_environment() -> None: ...
def compile(
    module: Module,
    lines: Sequence[tuple[str, str, dict]] = [],
    host: dict = {},
    progress: Callable[[int, int, str], None] | None = None,
) -> Executable:
    """Compiles a copy of the module into an executable. Adds `lines` to the module's
    description of its execution. Calls `progress` with (steps done, steps in all, name
    of the step).
    """

def contraction_cost(
    device: str, sizes: Mapping[str, int], half: bool, overrides: Mapping[str, float] = {}
) -> dict:
    """The terms of the cycles of a matrix product or convolution, and the parts into which
    its groups, rows, inner and outer channels are divided. `overrides` replaces
    constants.
    """

def cost_constants() -> list:
    """The constants of the cost model, as (name, value, unit, source, whether it is
    fitted).
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
    attributes, its inputs as (0: input, 1: output, 2: gradient of output; index), and
    for each of its outputs the input whose gradient it is.
    """

def custom_op_ids() -> list[tuple[str, str, int]]:
    """(domain, name, version) of the registered custom ops."""

def device_figures(device: str) -> dict:
    """Figures of a device profile."""

def disarm_fault(arg0: int, /) -> None: ...
def end_open_line() -> bool: ...
def environment() -> list[tuple[str, str, str, list[str], tuple[int, int], bool]]:
    """(name, kind, doc, allowed values, (least, most), whether it has an effect) of every variable;
    kinds: "text", "choice", "flag", "number", "names"."""

def environment_flag(name: str, /) -> bool: ...
def environment_number(name: str, otherwise: int, /) -> int: ...
def environment_text(name: str, otherwise: str = "") -> str: ...
def exchange_cycles(device: str, bytes: float, paired: bool = False) -> int:
    """The cycles in which a tile receives `bytes`, with the sync before it."""

def group_parameter(
    name: str, shape: Sequence[int], kind: str, size: int, all_replicas: bool, replicas: int
) -> ReplicaGroup:
    """The groups of replicas that share a value of a parameter. `shape` is the shape of
    its tensor on the host. Raises Error for groups and shapes that do not fit.
    """

def has_struck(arg0: int, /) -> bool: ...
def link_cycles(device: str, bytes: float) -> int:
    """The cycles of sending `bytes` over all IPU-Links of an IPU."""

def load(text: str | bytes, host: dict = {}) -> Executable:
    """Makes an executable from the text of a program, Executable.text('program'). State
    begins with the program's initial values, or with 0; write_state changes it.
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
    """Connects this process, as `instance` of `instances`, to the others of this host that
    use the same place: the path of a new file in a folder in memory, or an open, empty
    file of memfd_create. Waits at most `timeout` seconds until all have joined (0:
    without limit). `numbers`: the numbers of these instances among all instances, for
    messages.
    """

def meet_fault(point: str, place: str = "", index: int = 0) -> None:
    """Must be called once for each occurrence of a point. Triggers the fault that is armed
    for it.
    """

def op_names() -> list[str]: ...
def option_table() -> list[Option]: ...
def pair_cycles(device: str, bytes: float) -> int:
    """The cycles of sending `bytes` to one other IPU over IPU-Links."""

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
    """Registers a custom op made of Python functions, with any attributes: infer(types,
    attributes) → types, compute([(element type, array)], attributes, replica, replicas)
    → arrays, where a type is (element type, shape). gradient: the name of its gradient
    op, of the same domain and version, with the inputs and outputs of custom_gradient.
    """

def replace_constant(name: str, value: float) -> None:
    """Replaces a constant of the cost model in this process."""

def report_figures() -> list[tuple[str, str, str, str, str]]:
    """The figures of report(), as (list whose entries have it, name, type, unit, doc)."""

def run_pass(module: Module, name: str, lines: Sequence[tuple[str, str, dict]] = []) -> None:
    """Runs one pass, by name, on the module in place."""

def set_line_open(arg0: bool, /) -> None: ...
def set_log_level(level: int, /) -> None: ...
def tell_moved_bytes(listener: Any) -> None:
    """Sets the listener of this thread's large transfers. It is called with the number of
    further bytes moved.
    """

def torch_version() -> str:
    """Returns the version of torch that PopTorch is built for."""

COMM_GROUPS: list[str] = ["All", "Consecutive", "Orthogonal", "NoGrouping"]
