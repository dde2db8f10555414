"""What poptorch_core._torch (poptorch_cpp/bindings/torch_module.cpp) exposes.

The wrapper does not call it directly: `poptorch._impl.trace.session.compile(...)` prepares torch
for a trace (module scopes, autograd.Function, reassigned buffers, fast paths) and calls `compile`.

    poptorch._impl.trace.session.compile(call, model, inputs, options, optimiser=None, *,
                             location_excludes=(), module_scopes=True, progress=None) -> Executable

`call(inputs: list[Tensor]) -> list[Tensor]` runs the user's model on flat stand-ins of `inputs`
(one micro-batch each) and returns its tensors flat; `model` is the nn.Module whose parameters and
buffers become state (None for a plain function). State slots are named as in `named_parameters()`
and `named_buffers()`; tied tensors have the first of their names.

Errors of the core (support/error.hpp) are raised as `poptorch_core.Error(message, type,
frames)`, with the core's what(), type() and frames(); so are stray C++ exceptions, as type
"poptorch_internal_error".

Importing the module also registers torch.ops.poptorch.identity_loss(Tensor x, str reduction),
reduction one of "sum", "mean", "none": captured whole in a trace, and only used there.
"""

from collections.abc import Callable, Sequence
from typing import Any

from poptorch_core._core import Fabric
from torch import Tensor

__all__: list[str] = [
    "Executable",
    "ExecutableFile",
    "HeldMembers",
    "MemberLists",
    "Region",
    "abandon_function",
    "abandon_multi_conv",
    "abandon_region",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "are_plain",
    "attributes_beside",
    "attributes_of_all",
    "begin_backward",
    "begin_function",
    "begin_hook",
    "begin_multi_conv",
    "begin_region",
    "branch",
    "call_untraced",
    "close_to_gradients",
    "compile",
    "end_function",
    "end_hook",
    "end_multi_conv",
    "end_region",
    "explain",
    "follows_leaf",
    "freeze",
    "gradients",
    "group_rank",
    "group_size",
    "held_values",
    "holds_same_objects",
    "in_function",
    "is_traced",
    "is_tracing",
    "is_training",
    "known",
    "make_leaf",
    "make_wired_fabric",
    "pop_scope",
    "profile",
    "push_scope",
    "reduce_scatter",
    "repeat",
    "run_custom_op",
    "set_block",
    "set_compiler_log_level",
    "set_labels",
    "set_log_level",
    "trace",
    "trace_for",
    "traced_text",
    "use_results",
    "user_location",
    "why_not_plain",
    "with_other_attributes",
    "written_members",
]

class Executable:
    """A compiled model with its device memory. Names are those of the state slots."""

    def anchor_names(self) -> list[str]:
        """Every name that an anchor could have; empty without options["anchors"]."""

    def anchored(self) -> list[tuple[int, str]]:
        """What the last results of `run` are: which of options["anchors"] asked, and the name."""

    def attach(self) -> None: ...
    def check_memory(self, arg0: str, /) -> None: ...
    def close(self) -> None:
        """No step begins from here on. Raises Error while another thread runs one."""

    def drawing(self, micro_batches: int, /) -> str:
        """The schedule of the first micro-batches of a run, IPUs down and steps across."""

    def fetch_state(self, name: str) -> Tensor:
        """Like read_state, but includes the values of other processes. All processes must call
        it.
        """

    def forget_partial_state(self) -> bool:
        """Whether, since this was last asked, a step did not come to its end and left some of the
        state that it writes unwritten."""

    def form_lines(self) -> dict: ...
    def has_failed(self) -> bool: ...
    def highest_ipu(self) -> str:
        """A sentence on the block that the highest of them is there for; "" where there is
        one.
        """

    def input_types(self) -> list[tuple[str, list[int]]]:
        """("f32", [16, 784]) per input of `run`."""

    def inspect(self) -> dict: ...
    def ipus(self) -> int:
        """IPUs of one replica."""

    def output_types(self) -> list[tuple[str, list[int]]]: ...
    def owners(self, name: str) -> list[int]:
        """The process of each group's first replica; empty if each process can read the whole
        slot by itself.
        """

    def random_state(self) -> tuple[int, int]:
        """Seed of the random numbers, and the micro-batches that have drawn from them."""

    def read_state(self, name: str, /) -> Tensor: ...
    def reopen(self) -> None: ...
    def report(self) -> dict[str, Any]:
        """The fields of session::Report: "ipus" (bytes held, cycles and bytes moved, by IPU),
        "stages", "ops", "bubbles", "bottleneck_stage", "cycles_per_run", "generic_ops",
        "reference_kernels" (measured), ..."""

    def run(self, inputs: Sequence[Tensor], /) -> list[Tensor]:
        """One step. Inputs have the batching factors applied to dimension 0; int64 and float64
        are narrowed, non-contiguous ones copied. Results are new tensors (int32 for int64,
        float32 for float64). Without the GIL, but for handlers of signals, which the main thread
        lets run now and then; what they raise ends the step. Calls of several threads take turns.
        """

    def save(
        self,
        path: str,
        sections: Sequence[tuple[str, bytes]],
        input_names: Sequence[str],
        state: bool,
        random_state: bool,
    ) -> None: ...
    def schedule(self, micro_batches: int, /) -> dict[str, Any]:
        """Of the first micro-batches of a run, IPU by IPU: "cells" {"ipu", "stage", "phase",
        "micro_batch", "backward", "cycles", "step"}, "transfers" {"ipu", "phase", "micro_batch",
        "kind", "name", "bytes", "cycles", "io_tiles", "step"} and what they add up to."""

    def set_name(self, name: str) -> None:
        """Sets the name of the model for profilers."""

    def set_random_state(self, state: tuple[int, int], /) -> None: ...
    def state_kinds(self) -> set[str]: ...
    def states(self) -> list[tuple[str, str, str, list[int]]]:
        """(name, kind, dtype, shape) of every slot; kinds as in ir/module.hpp: "parameter",
        "buffer", "optimiser_state", "accumulator", "hyper_parameter", "rng"."""

    def text(self, form: str, locations: bool = False) -> str:
        """form: "traced", "normal", "differentiated", "placed", "program"."""

    def transfer_times(self, stream: int, /) -> list[tuple[float, float]]:
        """Begin and end of each transfer of the last run, in seconds of time.perf_counter().
        Streams are the inputs, then the results of `run`; every replica has a transfer."""

    def weights_to_device(self, names: Sequence[str] | None = None) -> None:
        """Copies the model's own tensors into the slots (all of them, or those named)."""

    def weights_to_host(self) -> None:
        """Copies every parameter and buffer slot into the model's own tensors, in place."""

    def write_state(self, name: str, value: Tensor, /) -> None: ...
    @property
    def has_forms(self) -> bool: ...
    @property
    def outputs(self) -> list[int | Tensor]:
        """One entry per tensor that `call` returned: its index in the list that `run` gives, or the
        tensor itself when the model returned one that lives on the host."""

    @property
    def replicas(self) -> tuple[int, int, int]:
        """The replicas of this process: (first, count, count in all processes)."""

    @property
    def written_inputs(self) -> list[int]: ...

class ExecutableFile:
    def __init__(self, arg0: str, /) -> None: ...
    def differences(
        self, arg0: Sequence[tuple[str, str, dict]], /
    ) -> list[tuple[str, str, str]]: ...
    def load(
        self,
        named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
        outputs: Sequence[int | Tensor],
        written_inputs: Sequence[int],
        host: dict,
        with_state: bool,
    ) -> Executable: ...
    def read(self, arg0: str, /) -> bytes: ...
    def sections(self) -> list[str]: ...
    def state(self) -> dict[str, Tensor]: ...

class HeldMembers:
    def changed(self) -> list: ...

class MemberLists:
    def __init__(self, model: Any, is_plain: Callable) -> None: ...
    def held(self, is_unchanged: bool = False) -> HeldMembers | None: ...
    def listed(self, kind: str, duplicates: bool = False, is_unchanged: bool = False) -> Any: ...

class Region:
    """A loop's body or a branch as recorded, for repeat or branch of the same trace."""

def abandon_function() -> None:
    """Ends it after an error, wherever it was: nothing of it stays."""

def abandon_multi_conv() -> None: ...
def abandon_region() -> None:
    """Ends it after an error: nothing of it stays."""

def all_gather(tensor: Tensor, dim: int, size: int, stride: int) -> Tensor: ...
def all_reduce(tensor: Tensor, op: str, size: int, stride: int) -> Tensor: ...
def all_to_all(
    tensor: Tensor, split_dim: int, concat_dim: int, size: int, stride: int
) -> Tensor: ...
def are_plain(tensors: Sequence[Tensor]) -> bool:
    """Returns whether why_not_plain() has no reason for any of the tensors."""

def attributes_beside(object: Any, names: frozenset) -> dict:
    """Returns the attributes of an object, except for those with one of the names."""

def attributes_of_all(objects: list, names: frozenset, types: frozenset) -> list:
    """Returns, for each object, its attributes except for those with one of the names, and
    those of them whose values have none of the types, or None if there are none.
    """

def begin_backward(outputs: Sequence[Tensor], /) -> list[Tensor | None]:
    """Ends its forward and starts its backward: the gradients of the floating outputs."""

def begin_function(name: str, arguments: Sequence[Tensor], /) -> list[Tensor]:
    """Starts recording the forward of an autograd.Function: what stands for its arguments."""

def begin_hook(tensor: Tensor, /) -> Tensor:
    """Starts recording a hook of `tensor`'s gradient: what stands for the gradient."""

def begin_multi_conv() -> None: ...
def begin_region(arguments: Sequence[Tensor], /) -> list[Tensor]:
    """Starts recording a loop's body or a branch: what stands for its arguments."""

def branch(
    condition: Tensor, then_region: Region, else_region: Region, outputs: Sequence[Tensor], /
) -> list[Tensor]:
    """The results of the branch that a 0-d bool chooses; both give tensors like `outputs`."""

def call_untraced(function: Callable[..., Any], /, *args: Any) -> Any:
    """Calls a function as if there were no trace."""

def close_to_gradients(
    arg0: str, arg1: str, arg2: Sequence[Tensor], arg3: Sequence[Tensor], /
) -> None: ...
def compile(
    call: Callable[[list[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
    lines: Sequence[tuple[str, str, dict[str, Any]]],
    host: dict[str, Any],
    location_excludes: Sequence[str] = [],
    progress: Callable[[int, int, str], None] | None = None,
    broadcast_buffers: bool = False,
    input_names: Sequence[str] = [],
) -> Executable:
    """Traces `call`, compiles the graph and uploads the weights.

    named_tensors: (slot name, tensor, is_buffer, what holds the values of all replicas or None).
    lines: what is said of the execution, (keyword, name, options) each; `_core.option_table()` has
        the keywords and options.
    host: the options of keyword "host", by name.
    progress: called as (done, total, phase).
    broadcast_buffers: refuses replicas that each write a parameter or buffer of their own.
    input_names: as messages and schedules call the inputs; without, by their numbers.
    Errors of the trace surface as the core's errors even when torch wrapped them on the way.
    """

def end_function(gradients: Sequence[Tensor | None], /) -> list[Tensor]:
    """Ends its backward, given the gradients of the floating arguments: the function's
    outputs.
    """

def end_hook(tensor: Tensor, gradient: Tensor, /) -> None:
    """Ends it, given what the hook makes of the gradient; abandon_function after an error."""

def end_multi_conv(serial: bool, values: Sequence[tuple[str, Sequence[str]]]) -> None: ...
def end_region(outputs: Sequence[Tensor], /) -> Region:
    """Ends it, given its results."""

def explain(
    call: Callable[[list[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
    training: bool = False,
    location_excludes: Sequence[str] = [],
) -> dict: ...
def follows_leaf(arg0: Tensor, /) -> bool: ...
def freeze(members: Sequence[Tensor], /) -> None:
    """Of the running trace: these tensors of modules are constants."""

def gradients(
    arg0: Sequence[Tensor], arg1: Sequence[Tensor], arg2: Sequence[Tensor], /
) -> list[Tensor | None]: ...
def group_rank(size: int, stride: int) -> Tensor: ...
def group_size(size: int, stride: int) -> int: ...
def held_values(objects: list, names: frozenset, types: frozenset) -> list:
    """Returns the values of all attributes of objects, except for those with one of the
    names or types, and empty containers.
    """

def holds_same_objects(one: dict, other: dict) -> bool:
    """Returns whether dictionaries have the same keys, and the identical object for each."""

def in_function() -> bool:
    """True between begin_function and end_function."""

def is_traced(tensor: Tensor, /) -> bool:
    """True for a tensor of the running trace: it has no values."""

def is_tracing() -> bool:
    """True while this thread runs the user's model for a trace (isRunningOnIpu)."""

def is_training() -> bool:
    """The same, where the model is wrapped for training."""

def known(tensor: Tensor, /) -> Tensor | None:
    """What it holds, on the host, where that depends on no input, no state and no random
    number.
    """

def make_leaf(arg0: Tensor, /) -> Tensor: ...
def make_wired_fabric(
    group: str,
    instance: int,
    instances: Sequence[tuple[str, int]],
    local: Fabric | None,
    connections: int,
) -> Fabric:
    """Connects this process to the other instances of a program over a process group
    registered with torch.distributed, and takes ownership of the group. `instances`:
    for each its name and its number in `local`, the fabric of the instances on this
    host; -1 if it is on another host. `connections`: devices of the group.
    """

def pop_scope() -> None: ...
def profile(
    call: Callable[[list[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
    lines: Sequence[tuple[str, str, dict[str, Any]]],
    location_excludes: Sequence[str] = [],
) -> dict[str, Any]:
    """What the parts of a model cost: the fields of session::Profile (account/profile.hpp).
    Nothing is uploaded: tensors may be of device "meta"."""

def push_scope(name: str, /) -> None:
    """Ops traced from here on belong to module path `name`, until pop_scope."""

def reduce_scatter(tensor: Tensor, op: str, dim: int, size: int, stride: int) -> Tensor: ...
def repeat(body: Region, count: int, outputs: Sequence[Tensor], /) -> list[Tensor]:
    """The results of `count` rounds of a body whose one round gave `outputs`."""

def run_custom_op(
    inputs: Sequence[Tensor], name: str, domain: str, version: int, attributes: str
) -> list[Tensor]:
    """Runs a custom op on tensors of the host."""

def set_block(ipu: int, stage: int, phase: int, name: str, scoped: bool) -> None:
    """Ops that follow run there (-1: unsaid); `scoped`: every op must then be in a block."""

def set_compiler_log_level(level: int, /) -> None:
    """The same, of the compiler's own messages alone."""

def set_labels(labels: str, /) -> str: ...
def set_log_level(level: int, /) -> None:
    """The core's log level by the numbers of poptorch.setLogLevel (support/log.hpp)."""

def trace(
    call: Callable[[list[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
    training: bool = False,
    location_excludes: Sequence[str] = [],
    locations: bool = False,
) -> str:
    """The traced form as text, without compiling it."""

def trace_for(
    call: Callable[[list[Tensor]], Sequence[Tensor]],
    inputs: Sequence[Tensor],
    named_tensors: Sequence[tuple[str, Tensor, bool, Tensor | None]],
    lines: Sequence[tuple[str, str, dict]],
    location_excludes: Sequence[str] = [],
    input_names: Sequence[str] = [],
) -> None: ...
def traced_text(arg0: Sequence[Tensor], /) -> str: ...
def use_results(arg0: Sequence[Tensor], arg1: Sequence[Tensor], /) -> None: ...
def user_location(location_excludes: Sequence[str]) -> str:
    """ "model.py:12": the user's innermost line. A running trace has its own excludes."""

def why_not_plain(tensor: Tensor, /) -> tuple[str, str]:
    """Why a tensor is not taken, e.g. as it is sparse, and the cure; "" twice for one that
    is.
    """

def with_other_attributes(objects: list, names: frozenset, attributes: list) -> set:
    """Returns the positions of the objects whose attributes, except for those with one of
    the names, are not the given ones.
    """

def written_members() -> list[Tensor]: ...
