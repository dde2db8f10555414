"""`python -m poptorch estimate`: estimates the models that a script would run."""

import contextlib
import json
import os
import runpy
import sys
from argparse import Namespace
from collections.abc import Iterator
from unittest import mock

import poptorch
import torch
from poptorch._impl.inspection import estimate as estimates
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch_core import Error


class _Called(BaseException):
    """Ends the script: it has called a wrapper, whose results do not exist."""


def estimate(given: Namespace) -> int:
    """Prints the estimates of the models that a script compiles or calls.

    given.script: the script. given.arguments: its command line. given.json: whether to print JSON.
    given.meta: whether the script creates its tensors on device meta.
    """
    found: list[estimates.Estimate] = []
    before = sys.argv
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.script)))
    try:
        with _estimating(found), torch.device("meta") if given.meta else contextlib.nullcontext():
            # The script's output must not mix with the JSON.
            with contextlib.redirect_stdout(sys.stderr):
                runpy.run_path(given.script, run_name="__main__")
    except (_Called, SystemExit):
        pass
    finally:
        sys.argv = before
        del sys.path[0]
    if not found:
        raise Error(
            f"[estimate] {given.script!r} ended without a model. It must call or compile a "
            "wrapper, or call poptorch.estimate()."
        )
    if given.json:
        print(json.dumps([one.to_dict() for one in found], indent=1))
    else:
        print("\n\n".join(map(str, found)))
    return 0


@contextlib.contextmanager
def _estimating(found: list[estimates.Estimate]) -> Iterator[None]:
    """Replaces calls and compilations of wrappers in the body by estimates, which go to `found`."""
    plain = poptorch.estimate

    def noted(*arguments, **keywords):
        made = plain(*arguments, **keywords)
        found.append(made)
        return made

    def compile(wrapper, *arguments, **keywords):
        found.append(estimates.of_call(wrapper, arguments, keywords))

    def call(wrapper, *arguments, **keywords):
        compile(wrapper, *arguments, **keywords)
        raise _Called

    with (
        mock.patch.object(poptorch, "estimate", noted),
        mock.patch.object(PoplarExecutor, "compile", compile),
        mock.patch.object(PoplarExecutor, "__call__", call),
    ):
        yield
