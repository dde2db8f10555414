"""TaskSession's use of wandb, which is imported at its use: DependencyError without it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from poptorch_core import optional_packages

_SCHEME = "wandb://"


def _wandb() -> Any:
    return optional_packages.load("wandb", "an artifact or a histogram")


def is_name(folder: "str | Path") -> bool:
    """Returns whether it names an artifact, `wandb://<name>`, rather than a folder."""
    return str(folder).startswith(_SCHEME)


@contextmanager
def saved(name: str) -> Iterator[Path]:
    """Yields a folder that becomes the artifact `name` of the current run afterwards."""
    wandb = _wandb()
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        artifact = wandb.Artifact(name.removeprefix(_SCHEME), type="checkpoint")
        artifact.add_dir(folder)
        wandb.run.log_artifact(artifact)


@contextmanager
def fetched(name: str) -> Iterator[Path]:
    """Yields a folder with the content of the artifact `name`."""
    wandb = _wandb()
    with tempfile.TemporaryDirectory() as folder:
        wandb.Api().artifact(name.removeprefix(_SCHEME)).download(folder)
        yield Path(folder)


def log_histograms(arrays: "Mapping[str, np.ndarray]", step: int) -> None:
    """Logs a histogram of each array under its name."""
    wandb = _wandb()
    wandb.log(
        {name: wandb.Histogram(x.astype(np.float32)) for name, x in arrays.items()}, step=step
    )


def log(values: "Mapping[str, float]") -> None:
    """Logs the values to the current run, if wandb is installed and has a run."""
    try:
        wandb = _wandb()
    except ImportError:
        return
    if wandb.run is not None:
        wandb.log(dict(values))
