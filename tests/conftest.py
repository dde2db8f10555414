"""Suites that run at once on one machine have a device pool each."""

import os
import shutil
import tempfile

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_device_pool():
    """64 IPUs of this process's own."""
    folder = tempfile.mkdtemp(prefix="poptorch-test-ipus-")
    os.environ["POPTORCH_IPU_POOL"] = f"64:2:{folder}"
    yield
    shutil.rmtree(folder, ignore_errors=True)
