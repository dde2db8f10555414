"""Writes figures and reports of a wrapper to TensorBoard or Weights & Biases.

The writer or the run comes from the program, so that this module imports neither library.
"""

import tempfile
from pathlib import Path
from typing import Any

import poptorch

_TABLES = ("ops",)  # with too many rows for scalars


def scalars(model: poptorch.PoplarExecutor, prefix: str = "ipu") -> dict[str, float]:
    """Returns the numbers of a wrapper's report by path, such as "ipu/cycles_per_run".

    Args:
        model: A compiled wrapper.
        prefix: The first part of each name.

    Raises:
        poptorch.Error: The model is not compiled.
    """
    found: dict[str, float] = {}
    of_model = {name: part for name, part in model.report().items() if name not in _TABLES}
    _collect(prefix, of_model, found)
    return found


def _collect(path: str, value: Any, found: dict[str, float]) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        found[path] = float(value)
    elif isinstance(value, dict):
        for name, part in value.items():
            _collect(f"{path}/{name}", part, found)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            _collect(f"{path}/{number}", part, found)


def log_to_tensorboard(
    writer: Any, model: poptorch.PoplarExecutor, step: int = 0, prefix: str = "ipu"
) -> None:
    """Adds a wrapper's figures as scalars, and its execution plan as text.

    Args:
        writer: A torch.utils.tensorboard.SummaryWriter, or an object with its methods.
        model: A compiled wrapper.
        step: The step of the figures.
        prefix: The first part of each name.

    Example:
        >>> writer = SummaryWriter("runs/first")
        >>> log_to_tensorboard(writer, training_model, step)
    """
    for name, value in scalars(model, prefix).items():
        writer.add_scalar(name, value, step)
    writer.add_text(f"{prefix}/model", f"```\n{model!r}\n```", step)


def log_to_wandb(
    run: Any,
    model: poptorch.PoplarExecutor,
    step: int | None = None,
    prefix: str = "ipu",
    *,
    artifact: Any = None,
) -> None:
    """Logs a wrapper's figures to a run, and adds its report to an artifact.

    Args:
        run: The run that wandb.init() returned, or an object with its methods.
        model: A compiled wrapper.
        step: The step of the figures. None: the run's.
        prefix: The first part of each name.
        artifact: A wandb.Artifact, which gets report.html with its data and is logged. None: the
            report is not written.

    Example:
        >>> artifact = wandb.Artifact("report", type="profile")
        >>> log_to_wandb(wandb.run, training_model, artifact=artifact)
    """
    run.log(scalars(model, prefix), step=step)
    if artifact is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        model.write_report(Path(folder))
        artifact.add_dir(folder)
        run.log_artifact(artifact)
