"""Finds out by writing which tensors of a call share memory, in eager torch and in wrapped models.

A call's tensors are its operands, numbered from 0, and its results, from r0. The program writes
each in turn, and returns copies of all tensors before and after each write. Two tensors share
memory if a write of one changes the other.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import poptorch
import torch
from compare import difference
from entries import Case, cases
from specials import SPECIALS
from trial import INTERNAL, ZERO_SIZED, _dense, _is_dense, _options, _tensors

DTYPES = (torch.float32, torch.int32, torch.bool, torch.complex64)
DEVICE_TYPES = {torch.float64: torch.float32, torch.complex128: torch.complex64}
MOST_TENSORS = 12  # of one call; further ones of a list show nothing new
NOT_COMPARED = (*SPECIALS, "input_in_place")  # values do not decide; inputs are written here anyway


@dataclass(frozen=True)
class Sharing:
    """The outcome of a case. `kind`: as in trial.Outcome.

    `pairs`: which tensors eager torch changes with which: (written, changed).
    """

    kind: str
    text: str = ""
    pairs: frozenset[tuple[str, str]] = frozenset()

    @property
    def written(self) -> list[str]:
        """Returns the names of the tensors that share memory."""
        return sorted({name for pair in self.pairs for name in pair})


def memory_cases(name: str, dtype: torch.dtype) -> Iterator[Case]:
    """Yields the cases of an entry whose arguments differ in more than their values."""
    for case in cases(name, dtype):
        if case.key.split()[-1] not in NOT_COMPARED:
            yield case


def _write(tensor: torch.Tensor) -> None:
    if tensor.dtype == torch.bool:
        tensor.logical_not_()
    else:
        tensor.mul_(-2).add_(1)


def _named(operands, results) -> dict[str, torch.Tensor]:
    named = {f"{i}": tensor for i, tensor in enumerate(operands)}
    named |= {f"r{i}": tensor for i, tensor in enumerate(results)}
    return dict(list(named.items())[:MOST_TENSORS])


def _of_device(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous copy with floats of at most 32 bits, as the device has them."""
    copy = tensor.clone(memory_format=torch.contiguous_format)
    return copy.to(DEVICE_TYPES.get(copy.dtype, copy.dtype))


class Written(torch.nn.Module):
    """Writes the inputs and results of the case's function in turn; returns copies of all."""

    def __init__(self, case: Case, names: list[str]) -> None:
        super().__init__()
        self.case, self.held, self.names = case, case.held, names

    def forward(self, *inputs):
        named = _named(inputs, _tensors(self.case.function(*inputs)))
        copies = [tensor.clone() for tensor in named.values()]
        for name in self.names:
            _write(named[name])
            copies += [tensor.clone() for tensor in named.values()]
        return tuple(copies)

    def inputs(self) -> list[torch.Tensor]:
        return [_of_device(tensor) for tensor in self.case.tensors]


class Trained(torch.nn.Module):
    """Writes one operand or result; the loss depends on all. Floating operands are computed."""

    def __init__(self, case: Case, name: str) -> None:
        super().__init__()
        self.case, self.held, self.name = case, case.held, name
        self.weights = torch.nn.ParameterList(_of_device(case.tensors[i]) for i in case.floats)

    def forward(self, *inputs):
        rest, weights = iter(inputs), iter(self.weights)
        places = range(len(self.case.tensors))
        operands = [next(weights) * 1 if i in self.case.floats else next(rest) for i in places]
        named = _named(operands, _tensors(self.case.function(*operands)))
        _write(named[self.name])
        loss = torch.zeros(())
        for tensor in named.values():
            part = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            if part.is_floating_point():
                ramp = torch.linspace(0.5, 1.5, part.numel(), dtype=torch.float32)
                loss = loss + (part.float() * ramp.reshape(part.shape)).sum()
        return poptorch.identity_loss(loss, "none")

    def inputs(self) -> list[torch.Tensor]:
        tensors = enumerate(self.case.tensors)
        return [_of_device(tensor) for i, tensor in tensors if i not in self.case.floats]


def _tensors_of_call(case: Case) -> tuple[list[str], list[str]]:
    """Returns the names of the call's tensors, and of those that eager torch can write."""
    operands = [_of_device(tensor) for tensor in case.tensors]
    named = _named(operands, _tensors(case.function(*operands)))
    if not all(_is_dense(tensor) for tensor in named.values()):
        raise NotImplementedError("tensors that are not dense")
    writable = []
    for name, tensor in named.items():
        try:
            _write(tensor)
        except RuntimeError:  # its elements overlap
            continue
        if tensor.numel():
            writable.append(name)
    if not writable:
        raise NotImplementedError("there is nothing to write")
    return list(named), writable


def _changes(names: list[str], writable: list[str], copies):
    """Returns (written, changed) → which elements changed."""
    count = len(names)
    rounds = [copies[i : i + count] for i in range(0, len(copies), count)]
    changed = {}
    for written, before, after in zip(writable, rounds, rounds[1:], strict=False):
        for name, old, new in zip(names, before, after, strict=True):
            where = (old != new) & ~((old != old) & (new != new))
            if name != written and where.any():
                changed[written, name] = where
    return changed


def _differing_pair(expected, found) -> str:
    for pair in sorted({*expected, *found}):
        written, seen = pair
        if pair not in found:
            return f"a write of {written} does not change {seen}"
        if pair not in expected:
            return f"a write of {written} changes {seen}"
        if not torch.equal(expected[pair], found[pair]):
            return f"a write of {written} changes other elements of {seen}"
    return ""


def _refusal(case: Case, error: Exception, pairs=frozenset()) -> Sharing:
    text = str(error)
    if any(t.numel() == 0 for t in case.tensors) and ZERO_SIZED in text:
        return Sharing("raised", text)
    if isinstance(error, poptorch.Error) and not any(word in text for word in INTERNAL):
        return Sharing("refused", text, pairs)
    return Sharing("internal", f"{type(error).__name__}: {text}", pairs)


def run_memory(case: Case) -> Sharing:
    """Compares which tensors share memory without gradients; the operands are inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            names, writable = _tensors_of_call(case)
            model = Written(case, writable)
            given = model.inputs()
            eager = [tensor.resolve_conj().resolve_neg() for tensor in model(*given)]
        except Exception as error:
            return Sharing("raised", str(error))
    expected = _changes(names, writable, eager)
    pairs = frozenset(expected)
    model = Written(case, writable)
    ours_given = model.inputs()
    try:
        wrapped = poptorch.inferenceModel(model, _options())
        try:
            ours = wrapped(*ours_given)
        finally:
            wrapped.destroy()
    except Exception as error:
        return _refusal(case, error, pairs)
    if text := _differing_pair(expected, _changes(names, writable, ours)):
        return Sharing("wrong", text, pairs)
    if pairs and not case.is_random:
        for mine, theirs in zip([*ours, *ours_given], [*eager, *given], strict=True):
            if text := difference(mine, theirs):
                return Sharing("wrong", f"after the writes: {text}", pairs)
    return Sharing("same", "", pairs)


def _eager_gradients(case: Case, name: str):
    model = Trained(case, name)
    model(*model.inputs()).backward()
    return {n: _dense(p.grad) for n, p in model.named_parameters() if p.grad is not None}


def run_gradients(case: Case, name: str) -> Sharing:
    """Compares the gradients of a training step that writes one tensor of the call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eager = _eager_gradients(case, name)
            if not eager:
                return Sharing("raised", "there is nothing to train")
        except Exception as error:
            return Sharing("raised", str(error))
    options = _options()
    for number, parameter in enumerate(eager):
        options.anchorTensor(f"gradient{number}", f"Gradient___{parameter}")
    model = Trained(case, name)
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        wrapped = poptorch.trainingModel(model, options, optimizer)
        try:
            wrapped(*model.inputs())
            ours = [wrapped.getAnchoredTensor(f"gradient{i}") for i in range(len(eager))]
        finally:
            wrapped.destroy()
    except Exception as error:
        return _refusal(case, error)
    for (parameter, theirs), mine in zip(eager.items(), ours, strict=True):
        if text := difference(mine, theirs):
            return Sharing("wrong", f"gradient of {parameter} after a write of {name}: {text}")
    return Sharing("same")


def outcomes(case: Case) -> Iterator[tuple[str, str, Sharing]]:
    """Yields (step, key, outcome) of everything that is compared of a case."""
    memory = run_memory(case)
    yield "memory", case.key, memory
    if case.floats and not case.is_random and memory.kind in ("same", "wrong"):
        for name in memory.written:
            yield "memory of training", f"{case.key}, {name}", run_gradients(case, name)
