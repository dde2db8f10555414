"""Runs one case through eager torch and through PopTorch, forward and one training step."""

import contextlib
import re
import warnings
from dataclasses import dataclass

import poptorch
import torch
from compare import difference
from entries import Case
from torch.utils import _pytree as pytree

ZERO_SIZED = "Zero-sized tensors are unsupported"
# An internal check of torch or of this project, or an exception without a message.
INTERNAL = ("INTERNAL ASSERT", "InternalError", "std::", "c10::", "Expected false", "vector::")


@dataclass(frozen=True)
class Outcome:
    """`kind`: same, refused, wrong, internal, raised (eager did too), lenient (eager raised).

    `text`: for `same`, the operators that ran by torch's own kernels; otherwise the message.
    """

    kind: str
    text: str = ""


class Inferred(torch.nn.Module):
    """The case's tensors are the inputs."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case, self.held = case, case.held

    def forward(self, *tensors):
        return self.case.function(*tensors)


class Trained(torch.nn.Module):
    """The case's floating tensors are parameters; the loss weighs every element differently."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case, self.held = case, case.held
        self.weights = torch.nn.ParameterList(case.tensors[i].clone() for i in case.floats)
        self.rest = [t for i, t in enumerate(case.tensors) if i not in case.floats]

    def forward(self, *rest):
        weights, others = iter(self.weights), iter(rest)
        results = self.case.function(
            *(
                next(weights if i in self.case.floats else others)
                for i in range(len(self.case.tensors))
            )  # fmt: skip
        )
        loss = torch.zeros(())
        for result in _tensors(results):
            if result.is_complex():
                result = torch.view_as_real(result)
            if result.is_floating_point():
                ramp = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float32)
                loss = loss + (result.float() * ramp.reshape(result.shape)).sum()
        return poptorch.identity_loss(loss, "none")


def _tensors(results) -> list[torch.Tensor]:
    return [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized


def _eager(function, tensors):
    """Returns results and the tensors after the call, or the text of eager torch's error."""
    given = [t.clone() for t in tensors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _tensors(function(*given)), given
        except Exception as error:
            return str(error)


def _in_double(case: Case):
    if case.is_random:
        return None
    doubles = [t.double() if t.is_floating_point() else t.clone() for t in case.tensors]
    with _held_in_double(case):
        made = _eager(case.function, doubles)
    return None if isinstance(made, str) else made


@contextlib.contextmanager
def _held_in_double(case: Case):
    """Computes the case's module in float64 inside the block."""
    if case.held is None:
        yield
        return
    state = {name: value.clone() for name, value in case.held.state_dict().items()}
    dtypes = {value.dtype for value in state.values() if value.is_floating_point()}
    case.held.double()
    try:
        yield
    finally:
        if dtypes:
            case.held.to(dtypes.pop())
        case.held.load_state_dict(state)


def _pick_the_same(given: torch.Tensor, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Returns whether two tensors of places along some dimension select equal elements."""
    if ours.shape != theirs.shape:
        return False
    if given.dim() == 0:
        return torch.equal(ours, theirs)
    for dim in range(given.dim()):
        try:
            chosen = given.gather(dim, ours), given.gather(dim, theirs)
        except RuntimeError:
            continue
        if difference(*chosen) is None:
            return True
    return False


def _refusal(error: Exception) -> Outcome:
    text = str(error)
    if isinstance(error, poptorch.Error) and not any(word in text for word in INTERNAL):
        return Outcome("refused", text)
    return Outcome("internal", f"{type(error).__name__}: {text}")


FOREIGN = re.compile(r' = aten\(.*schema="([\w:.]+)"')


def _options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


def run_forward(case: Case) -> Outcome:
    state = {} if case.held is None else {k: v.clone() for k, v in case.held.state_dict().items()}
    eager = _eager(case.function, case.tensors)
    after = {} if case.held is None else {k: v.clone() for k, v in case.held.state_dict().items()}
    if state:
        case.held.load_state_dict(state)
    raised = eager if isinstance(eager, str) else None
    if raised is None and not all(_is_dense(r) for r in eager[0] + case.tensors):
        return Outcome("refused", "results or inputs that are not dense")
    given = [t.clone() for t in case.tensors]
    try:
        wrapped = poptorch.inferenceModel(Inferred(case), _options())
        try:
            found = _tensors(wrapped(*given))
            wrapped.copyWeightsToHost()
            foreign = set(FOREIGN.findall(wrapped.graph("traced")))
        finally:
            wrapped.destroy()
    except Exception as error:
        is_internal = any(word in str(error) for word in INTERNAL)
        if raised is not None and (not is_internal or raised in str(error)):
            return Outcome("raised")
        if any(t.numel() == 0 for t in case.tensors) and ZERO_SIZED in str(error):
            return Outcome("raised")
        return _refusal(error)
    if raised is not None:
        return Outcome("lenient")
    if len(found) != len(eager[0]):
        return Outcome("wrong", f"{len(found)} results, eager {len(eager[0])}")
    exact, exact_after = _in_double(case) or ([], [])
    if len(exact) != len(found):
        exact = [None] * len(found)
    exact_after = exact_after or [None] * len(given)
    rows = zip(found, eager[0], exact, strict=True)
    pairs = [(f"result {i}", *row) for i, row in enumerate(rows)]
    rows = zip(given, eager[1], exact_after, strict=True)
    pairs += [(f"input {i} after", *row) for i, row in enumerate(rows)]
    pairs += [(name, case.held.state_dict()[name], value, None) for name, value in after.items()]
    for what, ours, theirs, true in pairs:
        if case.picks and theirs.dtype == torch.int64 and what.startswith("result"):
            if not _pick_the_same(case.tensors[0], ours.long(), theirs.long()):
                return Outcome("wrong", f"{what}: the places hold other values")
            continue
        if case.is_random:
            if ours.shape != theirs.shape:
                return Outcome("wrong", f"{what}: shape {ours.shape}, eager {theirs.shape}")
            continue
        if text := difference(ours, theirs, true, case.is_elementwise, case.precision):
            return Outcome("wrong", f"{what}: {text}")
    return Outcome("same", " ".join(sorted(foreign)))


def _dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Returns a copy, as the device has it."""
    return None if gradient is None else gradient.to_dense().clone()


def _eager_gradients(case: Case, dtype: torch.dtype | None = None):
    """Returns loss and gradients by name; None where eager torch has none."""
    model = Trained(case)
    if dtype is not None:
        model.weights.to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loss = model(*(t.clone() for t in model.rest))
            if not loss.requires_grad:
                return None
            loss.backward()
        except Exception:
            return None
    gradients = {n: _dense(p.grad) for n, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    return gradients


def _counts(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool(gradient.any())


def run_training(case: Case) -> Outcome | None:
    """Runs a training step; None if there is nothing to train."""
    if case.is_random or not (case.floats or case.held is not None):
        return None
    if not all(_is_dense(t) for t in case.tensors):
        return None
    state = {} if case.held is None else {k: v.clone() for k, v in case.held.state_dict().items()}
    eager = _eager_gradients(case)
    if eager is None:
        return None
    if state:
        case.held.load_state_dict(state)
    model = Trained(case)
    asked = [name for name, gradient in eager.items() if gradient is not None]
    outcome = _train(case, model, eager, asked)
    if "has no tensor Gradient___" in outcome.text:  # where we have none, torch's may be zeros
        asked = [name for name in asked if _counts(eager[name])]
        outcome = _train(case, model, eager, asked) if asked else Outcome("same")
    return outcome


def _train(case: Case, model: Trained, eager, asked: list[str]) -> Outcome:
    """Runs a step of the wrapped model, and compares the gradients of those names."""
    options = _options()
    for number, name in enumerate(asked):
        options.anchorTensor(f"gradient{number}", f"Gradient___{name}")
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        wrapped = poptorch.trainingModel(model, options, optimizer)
        wrapped(*(t.clone() for t in model.rest))
        found = {name: wrapped.getAnchoredTensor(f"gradient{i}") for i, name in enumerate(asked)}
    except Exception as error:
        if any(t.numel() == 0 for t in case.tensors) and ZERO_SIZED in str(error):
            return Outcome("raised")
        return _refusal(error)
    finally:
        if "wrapped" in locals():
            wrapped.destroy()
    with _held_in_double(case):
        exact = _eager_gradients(case, torch.float64) or {}
    for name in asked:
        pair = found[name], eager[name]
        if case.picks:  # the gradient may go to another of equal elements
            pair = tuple(gradient.flatten().sort().values for gradient in pair)
        true = None if case.picks else exact.get(name)
        text = difference(*pair, true, precision=case.precision)
        if text:
            return Outcome("wrong", f"gradient of {name}: {text}")
    return Outcome("same")
