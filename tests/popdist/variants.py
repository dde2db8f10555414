"""Defines the variants of a training by words: each word of a variant's name sets an option.

The first word of each row is the default and is not written. "adam f16 sum accumulated": Adam,
float16, summed gradients, two micro-batches per update. Not in the product: bf16; layers that are
tied, frozen, or unused; embedded, with gradients of some rows; stepped, a learning rate that
changes; iterated, two updates per step.
"""

import itertools

import poptorch
import torch

AXES = (
    ("sgd", "adam", "lamb"),
    ("f32", "f16"),
    ("sum", "mean"),
    ("", "accumulated"),
    ("", "grouped"),
    ("", "sharded"),
    ("", "scaled"),  # automatic loss scaling
    ("", "pipelined"),  # over four IPUs
    ("", "dropout"),
)
COMBINED = (
    "sgd f32 sum dropout",
    "adam f16 mean accumulated sharded",
    "lamb f32 mean accumulated grouped dropout",
    "sgd f16 sum accumulated grouped scaled",
    "adam f32 mean grouped sharded pipelined dropout",
    "sgd bf16 mean tied unused stepped",
    "adam f32 sum accumulated iterated frozen embedded",
)
EACH = tuple(" ".join(filter(None, words)) for words in itertools.product(*AXES))

_OPTIMISERS = {
    "sgd": (poptorch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "adam": (poptorch.optim.Adam, {"lr": 0.01}),
    "lamb": (poptorch.optim.LAMB, {"lr": 0.01}),
}


def optimiser_of(words, parameters):
    """The optimiser that a variant's words name."""
    made, arguments = _OPTIMISERS[words[0]]
    return made(parameters, **arguments)


def dtype_of(words):
    """Returns the dtype of weights and inputs."""
    known = {"f16": torch.float16, "bf16": torch.bfloat16}
    return known.get(words[1], torch.float32)


def accumulation_of(words):
    """Returns micro-batches per update: a pipeline of four needs at least seven."""
    if "pipelined" in words:
        return 16 if "accumulated" in words else 8
    return 2 if "accumulated" in words else 1


def iterations_of(words):
    """Returns updates per step."""
    return 2 if "iterated" in words else 1


def apply(words, options):
    """Sets the options that the words name."""
    kind = poptorch.ReductionType
    options.randomSeed(7).outputMode(poptorch.OutputMode.All)
    options.deviceIterations(iterations_of(words))
    training = options.Training.gradientAccumulation(accumulation_of(words))
    training.accumulationAndReplicationReductionType(kind.Mean if "mean" in words else kind.Sum)
    if "scaled" in words:
        training.setAutomaticLossScaling(True)
    if "sharded" in words:
        place = poptorch.TensorLocationSettings().useReplicatedTensorSharding(True)
        place.minElementsForReplicatedTensorSharding(4)
        options.TensorLocations.setOptimizerLocation(place)
