"""`python -m poptorch explain` and `plan`: look at the models that a script would run."""

import contextlib
import dataclasses
import inspect
import io
import json
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import poptorch
import torch
from poptorch._impl.command_line import scripts
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import Error


def explain(given: Namespace) -> int:
    """Prints the ops, modules and refusals of the models that a script compiles or calls.

    given.json: whether to print JSON. See scripts.run() for the others.
    Returns 1 if an op of a model is not supported.
    """
    found: list[poptorch.Explanation] = []

    def visit(wrapper: PoplarExecutor, args: tuple, kwargs: dict[str, Any]) -> None:
        wrapped = wrapper_state(wrapper).wrapped
        inputs = _micro_batch(wrapper, args, kwargs)
        found.append(poptorch.explain(wrapper, inputs, training=wrapped.training))

    _look(given, visit, found)
    _print(given, found, lambda one: {**dataclasses.asdict(one), "is_supported": one.is_supported})
    return 0 if all(one.is_supported for one in found) else 1


def plan(given: Namespace) -> int:
    """Prints the division into stages of the models that a script compiles or calls.

    given.ipus: the number of IPUs. given.json: whether to print JSON. See scripts.run() for the
    others.
    """
    found: list[poptorch.Plan] = []

    def visit(wrapper: PoplarExecutor, args: tuple, kwargs: dict[str, Any]) -> None:
        if wrapper_state(wrapper).wrapped.module is None:
            raise Error("[plan] the script wraps a function, which has no modules to divide.")
        inputs = _micro_batch(wrapper, args, kwargs)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints the plan
            made = poptorch.plan(wrapper, inputs, given.ipus)
        found.append(made)

    _look(given, visit, found)
    _print(
        given, found, lambda one: {**dataclasses.asdict(one), "cuts": one.cuts, "lines": one.lines}
    )
    return 0


def _look(given: Namespace, visit: scripts.Visit, found: list) -> None:
    scripts.run(given, visit)
    if not found:
        raise Error(
            f"[command line] {given.script!r} ended without a model. It must call or compile a "
            "wrapper."
        )


def _print(given: Namespace, found: list, plain: Callable[[Any], dict[str, Any]]) -> None:
    if given.json:
        print(json.dumps([plain(one) for one in found], indent=1))
    else:
        print("\n\n".join(map(str, found)))


def _micro_batch(wrapper: PoplarExecutor, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Returns the positional arguments of one micro-batch of a call."""
    wrapped = wrapper_state(wrapper).wrapped
    arguments = wrapped.signature.bind(args, kwargs)
    parts = map(wrapped.batching.micro_batch, arguments.tensors)
    positional, keyword = arguments.rebuild(iter(parts))
    model = wrapped.user_model
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    signature = inspect.signature(forward)
    bound = signature.bind(*positional, **keyword)
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    if chosen := [n for n, value in bound.kwargs.items() if value is not defaults.get(n)]:
        names = ", ".join(chosen)
        raise Error(f"[command line] the model takes {names} by keyword only. Pass it by position.")
    return bound.args
