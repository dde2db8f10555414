"""The type of rows of test_annotations, and the calls that are refused."""

from collections.abc import Callable
from typing import NamedTuple

import poptorch
import torch
from poptorch import AutoStage

LINE = r"\((\S*/refused_\w+\.py):(\d+)\)"
X = torch.randn(24, 4)


def options(strategy=None, iterations=8, accumulation=1, rounded=False, pool=None):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    made.autoRoundNumIPUs(rounded)
    if pool is not None:
        made.Emulator.devicePool(pool)
    made.Training.gradientAccumulation(accumulation)
    return made.setExecutionStrategy(strategy or poptorch.ShardedExecution(AutoStage.SameAsIpu))


def infer(model, strategy=None, **settings):
    """Returns a call of the model (or of its maker) for inference; sharded unless there is a
    strategy."""

    def call():
        made = model if isinstance(model, torch.nn.Module) else model()
        poptorch.inferenceModel(made, options(strategy, **settings))(X)

    return call


def train(model, strategy=None, **settings):
    def call():
        given = options(strategy, iterations=1, **settings)
        poptorch.trainingModel(model, given)(X, X)

    return call


class Refusal(NamedTuple):
    """A refused call, and the parts of its message."""

    call: Callable
    block: str
    line: str  # a part of the source line
    cure: str
    text: str  # a pattern of the whole
