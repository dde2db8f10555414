"""Names of ops in PopART's domains."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NumInputs:
    """The number of inputs that an op takes."""

    min: int = 0
    max: int = 0


@dataclass(frozen=True)
class OperatorIdentifier:
    """An op's domain, type, version and numbers of inputs and outputs."""

    domain: str
    type: str
    version: int = 1
    numInputs: NumInputs = NumInputs()
    numOutputs: int = 0
