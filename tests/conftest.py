"""Every test has a device pool of its own.

`--config NAME` runs tests in a world of tests/configs, `--config all` in each: see worlds.py.
`--share` leaves eleven twelfths of the cases of tests with the marker `shared` to other runs,
leaves those with the marker `nightly` to the night, and adds a sixth of the pairs of a test of
behaviour and a world: see shares.py.

What a test asserts is not changed: values must not depend on any of this. `suite_skip` of a config
maps a reason to the files, tests and cases (file::test[case]) that it concerns.
"""

import gc
import itertools
import signal

import pytest
import shares
import time_limits
import torch
import worlds
import zygote
from custom_op_library import custom_op_folder, custom_ops

__all__ = ["custom_op_folder", "custom_ops"]  # fixtures of all tests

pytest_configure, pytest_timeout_set_timer = time_limits.configure, time_limits.set_timer
CHANGES = pytest.StashKey[tuple[str, list[str]]]()  # of a test in a world


# A shell lets what it starts in the background ignore Ctrl-C; tests of it must not depend on that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--share", action="store_true", help="a part of what shares.py divides")
    names = ["all", *worlds.CONFIGS]
    parser.addoption("--config", choices=names, help="a file of tests/configs, or all of them")


def pytest_report_header(config):
    if config.getoption("--share"):
        return f"share {shares.of_run()} of {shares.SHARES} (WORLD_SHARE)"
    return None


def pytest_collection_finish():
    zygote.take_environment()
    zygote.start_workers()
    # Millions of objects of modules and tests, which each full collection would visit again.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure in a world says which it is, and what it changed."""
    report = yield
    if report.failed and (changes := item.stash.get(CHANGES, None)):
        name, lines = changes
        report.sections.append((f"world: {name}", "\n".join(lines) or "no model was wrapped"))
    return report


def pytest_collectstart(collector):
    """What modules draw as they are imported is that of every run, too."""
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
        # For a test with the marker, shares.split() deals out the pairs of a case and a world.
        share = "all" if test.get_closest_marker("shared") else shares.of_run()
        none = pytest.param(None, id=pytest.HIDDEN_PARAM)
        names = [none, *worlds.share_of(test.path.name, test.originalname, share)]
    else:
        return
    metafunc.parametrize("world", names, indirect=True)


def pytest_collection_modifyitems(config, items):
    """Leaves out the tests that have no world, and those that belong to other shares."""
    left = []
    if config.getoption("--config"):
        left = [item for item in items if item.callspec.params["world"] not in worlds.CONFIGS]
        items[:] = [item for item in items if item.callspec.params["world"] in worlds.CONFIGS]
    elif config.getoption("--share"):
        items[:], left = shares.split(items, shares.of_run())
    config.hook.pytest_deselected(items=left)


@pytest.fixture(autouse=True)
def seeded():
    """Inputs are those of every run, whichever tests ran before."""
    # torch.manual_seed() also formats the stack, once for every kind of accelerator.
    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True)
def world(request, seeded):
    """The config that was asked for, for one test; None without one."""
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
    """How many a weight update needs to fill the world's pipeline: for models that count them."""
    return worlds.micro_batches_of(world, world.get("ipus", 1), training=True) if world else 1


@pytest.fixture
def steps(world):
    """How many a test of optimisers makes. Those of worlds, of which there are many, cost more."""
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
    """64 IPUs of this test's own: a wrapper that another test keeps holds none of them."""
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"64:2:{next(device_pools)}")
