"""Suites that run at once on one machine have a device pool each.

`--config NAME` runs tests in a world of tests/configs: see worlds.py.

What a test asserts is not changed: values must not depend on any of this. `suite_skip` of a config
maps a reason to the files and tests (file::test) that it concerns.
"""

import os
import shutil
import tempfile

import pytest
import worlds


def pytest_addoption(parser):
    parser.addoption("--config", help="the name of a file of tests/configs, without .json")


@pytest.fixture(autouse=True)
def world(request, monkeypatch):
    """The config that was asked for, for one test; None without one."""
    name = request.config.getoption("--config")
    if not name:
        return None
    config = worlds.CONFIGS[name]
    test = getattr(request.node, "originalname", "")
    if reason := worlds.reason_to_skip(config, request.path.name, test):
        pytest.skip(reason)
    worlds.enter(config, monkeypatch)
    return config


@pytest.fixture(autouse=True, scope="session")
def own_device_pool():
    """64 IPUs of this process's own."""
    folder = tempfile.mkdtemp(prefix="poptorch-test-ipus-")
    os.environ["POPTORCH_IPU_POOL"] = f"64:2:{folder}"
    yield
    shutil.rmtree(folder, ignore_errors=True)
