"""TaskSession: a session that knows its streams and its state, and keeps checkpoints."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import popxl
from popxl.dtypes import as_bits
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.streams import InputStreams, OutputStreams

_INFO, _STATE, _PREFIX = "session_info.json", "state.npz", "checkpoint_"


class TaskSession(popxl.Session):
    """A session with named streams (`inputs`, `outputs`) and named variables (`state`).

    A checkpoint is a folder with the state's data and session_info.json.
    max_checkpoints: how many of them `save_checkpoint` keeps in a folder, 0: all.
    """

    def __init__(
        self,
        inputs: InputStreams,
        outputs: OutputStreams,
        state: NamedTensors,
        max_checkpoints: int = 1,
        ir: "popxl.Ir | None" = None,
        device_desc: str = "ipu_hw",
        weights_to_host_on_exit: bool = True,
    ) -> None:
        super().__init__(ir or popxl.gir(), device_desc, weights_to_host_on_exit)
        self.inputs, self.outputs, self.state = inputs, outputs, state
        self.max_checkpoints = max_checkpoints

    def get_named_tensors_data(self) -> dict[str, np.ndarray]:
        """The data of the state by name."""
        named = self.state.to_dict()
        data = self.get_tensors_data(named.values())
        return {name: data[t] for name, t in named.items()}

    def save_checkpoint(self, folder: "str | Path") -> Path:
        """Writes the state into a new checkpoint in `folder`; returns its path.

        Older checkpoints beyond max_checkpoints are removed.
        """
        known = _checkpoints(Path(folder))
        number = 1 + (_number(known[-1]) if known else -1)
        path = Path(folder) / f"{_PREFIX}{number}"
        path.mkdir(parents=True)
        data = self.get_named_tensors_data()
        arrays: dict[str, Any] = {k: as_bits(v) for k, v in data.items()}
        np.savez(path / _STATE, **arrays)
        tensors = {
            name: {"shape": list(t.shape), "dtype": t.dtype.name}
            for name, t in self.state.to_dict().items()
        }
        (path / _INFO).write_text(json.dumps({"number": number, "tensors": tensors}, indent=1))
        if self.max_checkpoints:
            for old in [*known, path][: -self.max_checkpoints]:
                shutil.rmtree(old)
        return path

    def load_checkpoint(self, path: "str | Path") -> None:
        """Reads a checkpoint, or the newest one in a folder.

        ValueError: there is none, or its tensors are not those of the state.
        """
        found = Path(path)
        if not (found / _INFO).exists():
            inside = _checkpoints(found)
            if not inside:
                raise ValueError(f"There is no checkpoint in {found}.")
            found = inside[-1]
        info = json.loads((found / _INFO).read_text())["tensors"]
        named = self.state.to_dict()
        expected = {n: {"shape": list(t.shape), "dtype": t.dtype.name} for n, t in named.items()}
        if info != expected:
            wrong = sorted(k for k in {**info, **expected} if info.get(k) != expected.get(k))
            raise ValueError(f"The checkpoint {found} has other tensors than the session: {wrong}.")
        with np.load(found / _STATE) as data:
            self.write_variables_data(
                {t: data[n].view(t.dtype.as_numpy()) for n, t in named.items()}  # type: ignore
            )

    def load_from_session(
        self, source: "TaskSession", names: "Mapping[str, str] | None" = None
    ) -> None:
        """Takes data of another session's variables of the same names, or {theirs: ours}."""
        ours, theirs = self.state.to_dict(), source.get_named_tensors_data()
        pairs = names or {name: name for name in theirs if name in ours}
        missing = [pair for pair in pairs.items() if pair[0] not in theirs or pair[1] not in ours]
        if missing:
            raise ValueError(f"These names are not in both sessions: {missing}.")
        self.write_variables_data({ours[b]: theirs[a].copy() for a, b in pairs.items()})  # type: ignore


def _number(path: Path) -> int:
    return int(path.name.removeprefix(_PREFIX))


def _checkpoints(folder: Path) -> list[Path]:
    found: list[Any] = [p for p in folder.glob(f"{_PREFIX}*") if (p / _INFO).exists()]
    return sorted(found, key=_number)
