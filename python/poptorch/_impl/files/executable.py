"""Compiled wrappers in files: saved, and loaded without compiling (see docs/executables.md).

The section `wrapper` is JSON and describes the compilation. The section `model` is a pickle of the
model, its options and its optimiser; their tensors are in `state` and `tensors`.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from poptorch._impl.devices import ipu_pool
from poptorch._impl.files import model_parts, safe_pickle
from poptorch._impl.files.tensors import TensorReader, TensorWriter
from poptorch._impl.inspection import progress
from poptorch._impl.optimisers import torch_state, updates
from poptorch._impl.options.group_class import value_of
from poptorch._impl.pytree import structure_json
from poptorch._impl.pytree.structures import Node
from poptorch._impl.weights import transfer
from poptorch._impl.weights.newest import Weights
from poptorch._impl.wrapper import compilation, device_binding, results, returned_weights
from poptorch._impl.wrapper.call_arguments import Arguments
from poptorch._impl.wrapper.compiled_model import Compiled, DeviceState
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._logging import logger_of
from poptorch.options import Options
from poptorch_core import Error, _torch

logger = logger_of(__name__)

_DEFAULT_NAME = "model.poptorch"
_DIFFERS = "The program was compiled for other options: wrap the model with the same options."


def save(
    wrapped: Wrapped,
    compiled: Compiled,
    optimizer: torch.optim.Optimizer | None,
    weights: Weights,
    filename: Any,
    export_model: bool,
    save_rng_state: bool,
) -> None:
    """Writes the compiled wrapper to a file atomically: see PoplarExecutor.save()."""
    if not any(isinstance(source, int) for source in compiled.outputs.sources):
        raise Error("Nothing to export. The model returns no tensor that the device computes.")
    if stored := compiled.outputs.names_of_stored():
        logger.warning(
            f"[save] forward writes {', '.join(stored)}. Runs of the loaded model do not write it: "
            "return it from forward instead."
        )
    path = _path_of(filename)
    transfer.take_newest(compiled, weights)
    weights.sync_host()
    about = _describe(wrapped, compiled, optimizer)
    about["has_weights"] = export_model and not weights.host_has_changed()
    sections = [("wrapper", json.dumps(about).encode())]
    if export_model:
        held = model_parts.as_device(wrapped, compiled) if about["has_weights"] else {}
        writer = TensorWriter(held)
        sections.append(("model", model_parts.pickled(wrapped, optimizer, writer)))
        sections.append(("tensors", writer.others()))
    if export_model and not ipu_pool.is_online(wrapped.options):
        compiled.executable.weights_to_device()  # an offline executable has no weights yet
    names = [node.name for node in compiled.arguments.tensor_nodes()]
    kinds = {"parameter", "buffer", "optimiser_state", "accumulator"} if export_model else set()

    def size() -> int:
        return compiled.state_bytes(kinds) + sum(len(data) for _, data in sections)

    with progress.of_bytes(f"Saving {path.name}", size, compiled.options):
        compiled.executable.save(str(path), sections, names, export_model, save_rng_state)


@dataclass(frozen=True)
class Saved:
    """A file that save() wrote. about: the content of its section `wrapper`."""

    name: str
    file: _torch.ExecutableFile
    about: dict[str, Any]

    @classmethod
    def open(cls, filename: Any) -> "Saved":
        """Opens a file; raises poptorch.Error if save() has not written it."""
        name = os.fspath(filename)
        try:
            file = _torch.ExecutableFile(name)
        except Error as error:
            raise Error(f"Invalid file {name}: {error.message}") from None
        if "wrapper" not in file.sections():
            raise Error(f"Invalid file {name}: it does not contain a wrapper.")
        with refusing(name):
            return cls(name, file, _checked(json.loads(file.read("wrapper"))))

    def parts(self, edit_opts_fn: Any, trust: bool) -> tuple[Any, Options, Any]:
        """Returns model, options and optimiser; raises AssertionError if the file has none."""
        if "model" not in self.file.sections():
            kind = "trainingModel" if self.about["training"] else "inferenceModel"
            raise AssertionError(
                f"{self.name} is a valid PopTorch file but was created with 'export_model=False' "
                f"which means you need to re-create the PopTorch model using poptorch.{kind} then "
                f"call poptorch_model.loadExecutable({self.name!r})."
            )
        with refusing(self.name), self._bar():
            reader = TensorReader(self.file.state(), self.file.read("tensors"))
            made = safe_pickle.loads(self.file.read("model"), reader, trust=trust)
            model, options, optimizer = model_parts.parts_of(made, self.about["training"])
        return model, model_parts.edited(options, edit_opts_fn), optimizer

    def _bar(self, options: Options | None = None):
        """Returns the progress bar of reading the file; options: the saved ones by default."""
        if options is None:
            options = Options().showCompilationProgressBar(self.about.get("shows_progress", True))
        title = f"Loading {Path(self.name).name}"
        return progress.of_bytes(title, lambda: os.stat(self.name).st_size, options)

    def check(self, wrapped: Wrapped) -> None:
        """Raises poptorch.Error if the wrapper's options need a different execution."""
        with refusing(self.name):
            told = "; ".join(
                f"{name} is {saved} in the file, {here} here"
                for name, saved, here in self.file.differences(
                    [compilation.execution_line(wrapped)]
                )
            )
            if told:
                raise Error(f"{told}. {_DIFFERS}")

    def compiled(
        self, wrapped: Wrapped, optimizer: torch.optim.Optimizer | None, *, with_state: bool
    ) -> Compiled:
        """Returns the result of the saved compilation.

        with_state: the device gets the file's weights and optimiser state; else the weights of the
        wrapper's model, and new optimiser state.
        """
        with refusing(self.name), self._bar(wrapped.options):
            made = _compiled(wrapped, optimizer, self.file, self.about, with_state)
            if with_state:
                made.device.has_weights = self.about["has_weights"]
            else:
                made.executable.weights_to_device()
            if optimizer is not None and with_state:
                torch_state.start_at(optimizer, self.about["steps"])
            return made


def _path_of(filename: Any) -> Path:
    path = Path(filename)
    if path.is_dir():
        path = path / _DEFAULT_NAME
        logger.warning(f"save(): {filename} is a directory, saving model to {path}")
    folder = path.parent
    if not folder.is_dir():
        if folder.exists():
            raise AssertionError(f"{folder} is a file, not a folder. Save into a folder.")
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise Error(f"[save] cannot create the folder {folder}: {error.strerror}.") from None
    return path


def _describe(
    wrapped: Wrapped, compiled: Compiled, optimizer: torch.optim.Optimizer | None
) -> dict[str, Any]:
    node = compiled.outputs.node
    assert node is not None
    arguments = compiled.arguments
    encode = structure_json.encode
    return {
        "training": wrapped.training,
        "shows_progress": value_of(wrapped.options, "_show_compilation_progress_bar"),
        "positional": [encode(node) for node in arguments.positional],
        "keyword": {name: encode(node) for name, node in arguments.keyword.items()},
        "is_plain": compiled.plain_inputs is not None,
        "results": encode(node),
        "sources": [_encode_source(source) for source in compiled.outputs.sources],
        "stored": [_encode_source(source) for source in compiled.outputs.stored],
        "weights": [view.encoded() for view in compiled.outputs.weights],
        "written_inputs": compiled.executable.written_inputs,
        "spec": compiled.spec,
        "steps": 0 if optimizer is None else torch_state.steps(optimizer, compiled),
    }


def _encode_source(source: int | torch.Tensor) -> Any:
    if isinstance(source, int):
        return source
    if source.numel():
        raise Error(
            "[save] the model returns a tensor of the host, which is not computed on the device. "
            "Return it from another function."
        )
    return [list(source.shape), str(source.dtype).removeprefix("torch.")]


def _decode_source(made: Any) -> int | torch.Tensor:
    if isinstance(made, int) and made >= 0:
        return made
    shape, dtype = made
    if 0 not in shape:
        raise TypeError("a tensor of the host has elements")
    return torch.empty(shape, dtype=structure_json.dtype_named(dtype))


# Keys of the section `wrapper` with the types of their values.
_SAID: dict[str, Any] = {
    "training": bool, "positional": list, "keyword": dict, "is_plain": bool, "results": dict,
    "sources": list, "written_inputs": list, "steps": int, "has_weights": bool,
}  # fmt: skip


def _checked(about: Any) -> dict[str, Any]:
    for name, kind in _SAID.items():
        if type(about[name]) is not kind:
            raise TypeError(f"{name} is a {type(about[name]).__name__}")
    if not all(type(index) is int and index >= 0 for index in about["written_inputs"]):
        raise TypeError("written_inputs are not numbers")
    return about


def _check_results(node: Node, sources: int) -> None:
    leaves = structure_json.tensors_of(node)
    if [leaf.index for leaf in leaves] != list(range(sources)):
        raise TypeError(f"the results have {len(leaves)} tensors of {sources}")


def _compiled(
    wrapped: Wrapped,
    optimizer: torch.optim.Optimizer | None,
    file: _torch.ExecutableFile,
    about: dict[str, Any],
    with_state: bool,
) -> Compiled:
    options, spec, watch = compilation.optimiser_of(wrapped, optimizer)
    recorder = results.Outputs()
    recorder.node = structure_json.decode(about["results"])
    recorder.sources = [_decode_source(made) for made in about["sources"]]
    recorder.stored = [_decode_source(made) for made in about.get("stored", [])]
    _check_results(recorder.node, len(recorder.sources))
    said_of_weights = about.get("weights", [])  # files of earlier versions say nothing
    recorder.weights = [returned_weights.WeightView.decoded(said) for said in said_of_weights]
    if any(view.result >= len(recorder.sources) for view in recorder.weights):
        raise TypeError("a returned weight is not among the results")
    arguments = Arguments(
        tuple(structure_json.decode(node) for node in about["positional"]),
        {name: structure_json.decode(node) for name, node in about["keyword"].items()},
        [],
    )
    for node in arguments.tensor_nodes():
        assert node.shape is not None
        arguments.tensors.append(torch.zeros((), dtype=node.dtype).expand(node.shape))
    synthetic = device_binding.synthetic_inputs(options, arguments.tensors)
    with wrapped.groupings.stand_ins(wrapped.model) as held_by:
        executable = file.load(
            model_parts.named_tensors(wrapped.module, held_by),
            recorder.sources + recorder.stored,
            about["written_inputs"],
            compilation.host_options(wrapped, options),
            with_state,
        )
    made = Compiled(
        name=wrapped.name,
        executable=executable,
        arguments=arguments,
        rebuild=returned_weights.rebuilder(recorder, executable),
        outputs=recorder,
        plain_inputs=arguments.plain(about["is_plain"] and synthetic is None),
        synthetic_inputs=synthetic,
        optimiser=watch,
        options=options,
        seconds=0.0,
        device=DeviceState(),
    )
    if spec is not None:
        updates.write_changes(made, about["spec"], spec)
    return made


@contextlib.contextmanager
def refusing(filename: Any) -> Iterator[None]:
    """Adds the file's name to errors in the body. A damaged file may cause any exception."""
    try:
        yield
    except Error as error:
        if error.message.startswith("Invalid file "):
            raise
        raise Error(f"Invalid file {filename}: {error.message}") from None
    except Exception as error:
        raise Error(
            f"Invalid file {filename}: its description of the wrapper was not written by save() "
            f"({type(error).__name__}: {error!s:.200}). Export the model again."
        ) from error
