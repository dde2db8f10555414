"""Gives every test a separate device pool, and runs tests in placement configurations and in
shares.

`--config NAME` runs tests in a placement configuration of tests/configs, `--config all` in each of
them: see worlds.py. `--share` runs a twelfth of the cases of tests with the marker `shared`, leaves
out tests with the marker `nightly`, and adds a sixth of the pairs of a behaviour test and a
configuration: see shares.py.

None of this changes what a test asserts: values must not depend on it. `suite_skip` of a
configuration maps a reason to the files, tests and cases (file::test[case]) that it concerns.
"""

import gc
import itertools
import logging
import os
import signal

import pytest
import shares
import time_limits
import torch
import worlds
import zygote
from custom_op_library import custom_op_folder, custom_ops
from poptorch.integrations import placements

__all__ = ["custom_op_folder", "custom_ops"]  # fixtures of all tests

pytest_configure, pytest_timeout_set_timer = time_limits.configure, time_limits.set_timer
CHANGES = pytest.StashKey[tuple[str, list[str]]]()  # of a test in a placement configuration


# A shell may start background processes with Ctrl-C ignored; tests must not depend on that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--share", action="store_true", help="a part of what shares.py divides")
    whole = "the share has one in N cases of the tests with the marker shared"
    parser.addoption("--share-of", type=int, metavar="N", default=shares.SHARES, help=whole)
    names = ["all", *worlds.CONFIGS]
    parser.addoption("--config", choices=names, help="a file of tests/configs, or all of them")


def pytest_report_header(config):
    if config.getoption("--share"):
        return f"share {shares.of_run()} of {shares.SHARES} (WORLD_SHARE)"
    return None


def pytest_collection_finish():
    zygote.take_environment()
    zygote.start_workers()
    # Modules and tests have millions of objects, which each full collection would visit again.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds to a failure the placement configuration of the test, and its changes."""
    report = yield
    if report.failed and (changes := item.stash.get(CHANGES, None)):
        name, lines = changes
        report.sections.append((f"world: {name}", "\n".join(lines) or "no model was wrapped"))
    return report


def pytest_collectstart(collector):
    """Seeds torch before an import, because modules of tests draw random numbers."""
    if isinstance(collector, pytest.Module):
        torch.manual_seed(0)


def pytest_ignore_collect(collection_path, config):
    asked = config.getoption("--config")
    if asked and collection_path.is_file() and not worlds.asked_for(asked, collection_path.name):
        return True
    return None


def pytest_generate_tests(metafunc):
    asked, test = metafunc.config.getoption("--config"), metafunc.definition
    if asked:
        names = worlds.asked_for(asked, test.path.name, test.originalname)
    elif metafunc.config.getoption("--share") and worlds.SUITE_FOLDER in test.path.parts:
        # For a test with the marker, shares.split() divides the pairs of a case and a
        # configuration.
        share = "all" if test.get_closest_marker("shared") else shares.of_file(test.path.name)
        none = pytest.param(None, id=pytest.HIDDEN_PARAM)
        names = [none, *worlds.share_of(test.path.name, test.originalname, share)]
    else:
        return
    metafunc.parametrize("world", names, indirect=True)


def pytest_collection_modifyitems(config, items):
    """Leaves out the tests without a placement configuration, and those of other shares."""
    left = []
    if config.getoption("--config"):
        left = [item for item in items if item.callspec.params["world"] not in worlds.CONFIGS]
        items[:] = [item for item in items if item.callspec.params["world"] in worlds.CONFIGS]
    elif config.getoption("--share"):
        one_in = config.getoption("--share-of")
        items[:], left = shares.split(items, shares.of_run(), one_in, shares.changed())
    config.hook.pytest_deselected(items=left)


@pytest.fixture(autouse=True)
def seeded():
    """Gives a test the same random numbers, whichever tests ran before."""
    # torch.manual_seed() also formats the stack, once for every kind of accelerator.
    torch.default_generator.manual_seed(0)


def _poptorch_loggers():
    """Returns the logger of poptorch and its children, which inherit the level unless it is set."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("poptorch.")]
    return [logging.getLogger(name) for name in ["poptorch", *names]]


@pytest.fixture(autouse=True)
def log_levels():
    """Restores the levels of the loggers, which tests and blocks of pages change."""
    before = {logger: logger.level for logger in _poptorch_loggers()}
    yield
    for logger in _poptorch_loggers():
        if logger.level != before.get(logger, logging.NOTSET):
            logger.setLevel(before.get(logger, logging.NOTSET))


@pytest.fixture(autouse=True)
def environment():
    """Restores the environment, which libraries change when a test imports them."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True)
def world(request, seeded):
    """The placement configuration of one test; None without one."""
    name = getattr(request, "param", None)
    if name is None:
        yield None
        return
    case = request.node.name.replace(f"[{name}-", "[")
    if reason := worlds.reason_to_skip(worlds.CONFIGS[name], request.path.name, case):
        pytest.skip(reason)
    with worlds.entered(worlds.CONFIGS[name]) as changes:
        request.node.stash[CHANGES] = name, changes
        yield worlds.CONFIGS[name]


@pytest.fixture
def micro_batches(world):
    """The micro-batches that a weight update needs to fill the configuration's pipeline."""
    return placements.micro_batches_of(world, world.get("ipus", 1), training=True) if world else 1


@pytest.fixture
def steps(world):
    """The number of steps in a test of optimisers: fewer in configurations, of which there are
    many."""
    return 200 if world is None else 40


@pytest.fixture(autouse=True, scope="session")
def device_pools(tmp_path_factory):
    """Gives fixtures of modules and sessions 64 IPUs, and yields folders for other pools."""
    folder = tmp_path_factory.mktemp("ipus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POPTORCH_IPU_POOL", f"64:2:{folder}")
        yield (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_device_pool(device_pools, monkeypatch):
    """Gives this test a separate pool of 64 IPUs, of which no other test's wrapper holds any."""
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"64:2:{next(device_pools)}")
