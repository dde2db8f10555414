"""Runs a user's script until it calls a wrapped model, for commands that look at the model."""

import contextlib
import os
import runpy
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch_core import Error

# Gets a wrapper with the positional arguments and the keywords of a call.
Visit = Callable[[PoplarExecutor, tuple, dict[str, Any]], object]


class _Called(BaseException):
    """Ends the script: it has called a wrapper, whose results do not exist."""


def run(given: Namespace, visit: Visit) -> None:
    """Runs a script; visits each compilation of a wrapper, and ends at the first call of one.

    given.script: the script. given.arguments: its command line.
    given.meta: whether the script creates its tensors on device meta.
    """
    if not os.path.isfile(given.script):
        raise Error(f"[command line] {given.script!r} is not a file. Name a Python script.")
    before = sys.argv
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.script)))
    try:
        with _visiting(visit), torch.device("meta") if given.meta else contextlib.nullcontext():
            # The script's output must not mix with the command's.
            with contextlib.redirect_stdout(sys.stderr):
                runpy.run_path(given.script, run_name="__main__")
    except (_Called, SystemExit):
        pass
    finally:
        sys.argv = before
        del sys.path[0]


@contextlib.contextmanager
def _visiting(visit: Visit) -> Iterator[None]:
    """Replaces calls and compilations of wrappers in the body."""

    def compile(wrapper, *arguments, **keywords):
        visit(wrapper, arguments, keywords)

    def call(wrapper, *arguments, **keywords):
        visit(wrapper, arguments, keywords)
        raise _Called

    with (
        mock.patch.object(PoplarExecutor, "compile", compile),
        mock.patch.object(PoplarExecutor, "__call__", call),
    ):
        yield
