"""Runs models of tests in the placement configurations of tests/configs without changes to the
tests.

A configuration may have a strategy, which poptorch.integrations.placements applies to models, and
variables of the environment.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
from unittest import mock

import poptorch
import shares
import torch
from poptorch.integrations import placements

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((pathlib.Path(__file__).parent / "configs").glob("*.json"))
}
ALL_WORLDS = CONFIGS.pop("all_worlds")  # exceptions of all
PLACED_WORLDS = CONFIGS.pop("placed_worlds")  # and of all with a strategy

# The configurations in which the behaviour tests run (`python -m pytest --config all
# tests/behaviour`), except what `suite_skip` names, with its reason.
SUITE_FOLDER = "behaviour"
SUITE = [name for name, config in CONFIGS.items() if "suite_skip" in config]


def asked_for(asked, path, test=""):
    """Returns the configurations of `--config` in which a test, or some test of a file, runs."""
    names = SUITE if asked == "all" else [asked]
    return [name for name in names if not reason_to_skip(CONFIGS[name], path, test)]


def share_of(path, test, share):
    """Returns the configurations in which a share runs a test, a sixth of them: see shares.py."""
    return shares.taken(asked_for("all", path, test), f"{path}::{test}", share, shares.OF_WORLDS)


def reason_to_skip(config, path, test=""):
    """Returns why the configuration leaves out the test, or the whole file; None if it does not."""
    tables = [ALL_WORLDS, PLACED_WORLDS] if "strategy" in config else [ALL_WORLDS]
    for table in (each.get("suite_skip", {}) for each in [*tables, config]):
        for reason, tests in table.items():
            if path in tests or f"{path}::{test}" in tests:
                return reason
    return None


@contextlib.contextmanager
def entered(config):
    """Runs models that are wrapped inside the block in that configuration.

    Yields a list of its changes: a line for the variables and for each model.
    """
    changes = [f"{name}={value}" for name, value in config.get("environment", {}).items()]
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment(config))
        if "strategy" in config:
            stack.enter_context(placements.using(config, changes))
        yield changes


def environment(config):
    """Sets the configuration's variables in this process, and those that it starts, inside the
    block."""
    variables = config.get("environment", {})
    known = {"{optional_passes}": _optional_passes}
    return mock.patch.dict(
        os.environ,
        {name: known[text]() if text in known else text for name, text in variables.items()},
    )


@functools.cache
def _optional_passes():
    """Returns the names of all passes, from the core's error about an unknown name."""
    with mock.patch.dict(os.environ, POPTORCH_DISABLE_PASSES="none of them"):
        try:
            options = poptorch.Options().showCompilationProgressBar(False)
            poptorch.inferenceModel(torch.neg, options).compile(torch.ones(1))
        except poptorch.Error as error:
            return re.search(r"Set it to some of (.*), or unset it", str(error))[1].replace(" ", "")
    raise AssertionError("a pass that there is not was taken")
