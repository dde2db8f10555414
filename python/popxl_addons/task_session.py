"""TaskSession: a session with named streams, named state and checkpoints."""

import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import popxl
from popxl._impl.records import of
from popxl_addons import wandb_tools
from popxl_addons.instances import first_instance_first
from popxl_addons.named_tensors import NamedTensorData, NamedTensors
from popxl_addons.streams import InputStreams, OutputStreams

_INFO, _MODEL, _LOADER = "session_info.json", "model", "dataloader.bin"
_REPORTS = ("none", "warn", "error")
_log = logging.getLogger("popxl_addons")


def initialise_memmap_dir_from_checkpoint(
    checkpoint_dir: "str | Path", memmap_dir: "str | Path"
) -> None:
    """Copies a checkpoint's memory-mapped variables into a folder, from which they are mapped.

    Args:
        checkpoint_dir: The folder of the checkpoint.
        memmap_dir: The folder to copy to.
    """
    Path(memmap_dir).mkdir(parents=True, exist_ok=True)
    for file in sorted((Path(checkpoint_dir) / _MODEL).glob("*.npy")):
        shutil.copy(file, Path(memmap_dir) / file.name)


def _memmap_of(variable: Any) -> "np.memmap | None":
    data = getattr(of(variable), "data", None)
    return data if isinstance(data, np.memmap) else None


class TaskSession(popxl.Session):
    """A session with named streams (`inputs`, `outputs`) and named variables (`state`).

    The other arguments are the Session's; `ir` is by default the current one.

    Args:
        inputs: A collection or list of streams.
        outputs: A collection or list of streams.
        state: Variables by name.
        max_checkpoints: The number of its saved checkpoints that the session keeps; 0: all.
        *args: Arguments of the Session.
        **kwargs: Keyword arguments of the Session.

    Attributes:
        session_state: {"steps": runs so far}, and the entries of `add_session_state_info`.
    """

    initialise_memmap_dir_from_checkpoint = staticmethod(initialise_memmap_dir_from_checkpoint)

    def __init__(
        self,
        inputs: "InputStreams | Iterable[popxl.HostToDeviceStream]",
        outputs: "OutputStreams | Iterable[popxl.DeviceToHostStream]",
        state: NamedTensors,
        max_checkpoints: int = 1,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not args and kwargs.get("ir") is None:
            kwargs["ir"] = popxl.gir()
        super().__init__(*args, **kwargs)
        is_named = isinstance(inputs, InputStreams)
        self.inputs = inputs if is_named else InputStreams.from_streams(inputs)
        is_named = isinstance(outputs, OutputStreams)
        self.outputs = outputs if is_named else OutputStreams.from_streams(outputs)
        self.state = state
        self.max_checkpoints = max_checkpoints
        self.session_state: dict[str, Any] = {"steps": 0}
        self._dataloader: Any = None
        self._saved: list[Path] = []

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """See Session. Adds 1 to the steps of `session_state`.

        Args:
            *args: The arguments of Session.run.
            **kwargs: The keyword arguments of Session.run.
        """
        results = super().run(*args, **kwargs)
        self.session_state["steps"] += 1
        return results

    @property
    def dataloader(self) -> Any:
        """The data loader, which checkpoints save and resume; initially None.

        Setting an object without `save(path)` and `resume(filename=)` raises ValueError.
        """
        return self._dataloader

    @dataloader.setter
    def dataloader(self, value: Any) -> None:
        if not all(callable(getattr(value, name, None)) for name in ("save", "resume")):
            raise ValueError(f"A dataloader must have `save` and `resume`; {value!r} lacks them.")
        self._dataloader = value

    def add_session_state_info(self, info: "Mapping[str, Any]") -> None:
        """Adds entries to session_info.json of checkpoints.

        Args:
            info: The entries.
        """
        self.session_state.update(info)

    def get_named_tensors_data(self) -> NamedTensorData:
        """Returns the data of the state by name."""
        named = self.state.to_dict()
        data = self.get_tensors_data(named.values())
        found = {name: data[t] for name, t in named.items()}
        return NamedTensorData.from_dict(found)

    def _report(self, theirs: "Iterable[str]", source: str, report: str) -> None:
        """Reports names that only one side has. Raises ValueError for 'error' or a bad report."""
        if report not in _REPORTS:
            raise ValueError(f"report_missing must be one of {_REPORTS} but is {report!r}.")
        ours, known = set(self.state.to_dict()), set(theirs)
        texts = []
        if known - ours:
            texts.append(f"The session lacks {sorted(known - ours)}, which are in {source}.")
        if ours - known:
            texts.append(f"{sorted(ours - known)} are missing in {source}.")
        if texts and report == "error":
            raise ValueError(" ".join(texts))
        for text in texts if report == "warn" else ():
            _log.warning(text)

    def load_from_session(self, src: "TaskSession", report_missing: str = "none") -> None:
        """Copies the data of another session's variables of the same names.

        Args:
            src: The other session.
            report_missing: The action for names that only one session has: "none", "warn" or
                "error".

        Raises:
            ValueError: report_missing is "error" and names are missing, or it is another one.
        """
        theirs, ours = src.get_named_tensors_data().to_dict(), self.state.to_dict()
        self._report(theirs, "the other session", report_missing)
        common: Any = {ours[name]: theirs[name].copy() for name in theirs if name in ours}
        self.write_variables_data(common)

    def save_checkpoint(self, checkpoint_dir: "str | Path") -> None:
        """Writes the state's data, session_state and the data loader's position into a folder.

        `model/<name>.npz` holds one array with the variable's name; a memory-mapped variable's file
        is copied there. Beyond max_checkpoints, the oldest folders of this session are deleted. All
        instances must call it: they fetch the data, and the first one writes it.

        Args:
            checkpoint_dir: The folder. `wandb://<name>`: an artifact of wandb's current run.
        """
        data = self.get_named_tensors_data().to_dict()
        with first_instance_first(self.ir) as is_first:
            if is_first:
                self._save_to(checkpoint_dir, data)

    def _save_to(self, checkpoint_dir: "str | Path", data: dict[str, np.ndarray]) -> None:
        if wandb_tools.is_name(checkpoint_dir):
            with wandb_tools.saved(str(checkpoint_dir)) as folder:
                self._save(folder, data)
            return
        path = Path(checkpoint_dir)
        self._save(path, data)
        self._saved = [*(p for p in self._saved if p != path), path]
        while self.max_checkpoints and len(self._saved) > self.max_checkpoints:
            shutil.rmtree(self._saved.pop(0), ignore_errors=True)

    def _save(self, path: Path, data: dict[str, np.ndarray]) -> None:
        (path / _MODEL).mkdir(parents=True, exist_ok=True)
        named = self.state.to_dict()
        for name, array in data.items():
            mapped = _memmap_of(named[name])
            if mapped is None:
                arrays: dict[str, Any] = {name: array}
                np.savez(path / _MODEL / f"{name}.npz", **arrays)
            else:
                mapped.flush()
                file = Path(str(mapped.filename))
                shutil.copy(file, path / _MODEL / file.name)
        (path / _INFO).write_text(json.dumps(self.session_state))
        if self._dataloader is not None:
            self._dataloader.save(str(path / _LOADER))

    def load_checkpoint(
        self,
        checkpoint_dir: "str | Path",
        report_missing: str = "warn",
        skip_memmap: bool = False,
    ) -> None:
        """Loads a checkpoint of `save_checkpoint`.

        Args:
            checkpoint_dir: See `save_checkpoint`.
            report_missing: See `load_from_session`.
            skip_memmap: Whether to keep the files of memory-mapped variables.

        Raises:
            ValueError: The folder does not contain a checkpoint.
        """
        if wandb_tools.is_name(checkpoint_dir):
            with wandb_tools.fetched(str(checkpoint_dir)) as folder:
                self._load(folder, report_missing, skip_memmap)
        else:
            self._load(Path(checkpoint_dir), report_missing, skip_memmap)

    def _load(self, path: Path, report_missing: str, skip_memmap: bool) -> None:
        if not (path / _MODEL).is_dir():
            raise ValueError(f"There is no checkpoint in {path}.")
        named = self.state.to_dict()
        data: dict[str, np.ndarray] = {}
        for file in (path / _MODEL).glob("*.npz"):
            with np.load(file) as arrays:
                data |= {name: arrays[name] for name in arrays.files}
        mapped = {
            name: of_file for name, t in named.items() if (of_file := _memmap_of(t)) is not None
        }
        files = {name: path / _MODEL / Path(str(m.filename)).name for name, m in mapped.items()}
        found = {name: file for name, file in files.items() if file.exists()}
        self._report([*data, *found], str(path), report_missing)
        if not skip_memmap:
            data |= {
                n: np.fromfile(f, mapped[n].dtype).reshape(mapped[n].shape)
                for n, f in found.items()
            }
        else:
            data = {n: array for n, array in data.items() if n not in mapped}
        common: Any = {named[name]: array for name, array in data.items() if name in named}
        self.write_variables_data(common)
        info = path / _INFO
        self.session_state = json.loads(info.read_text()) if info.exists() else {"steps": 0}
        if self._dataloader is not None and (path / _LOADER).exists():
            self._dataloader.resume(filename=str(path / _LOADER))

    def wandb_variable_histograms(self, step: int = 0) -> None:
        """Logs the histogram of every variable of the state to wandb's current run.

        Args:
            step: The number of the step; by default that of the session.
        """
        wandb_tools.log_histograms(self.get_named_tensors_data().to_dict(), step)
