"""Provides the browser that tests of pages share, and the folder for their pages."""

import browsing
import pytest


@pytest.fixture(scope="module")
def browser():
    with browsing.opened() as made:
        yield made


@pytest.fixture
def as_before(browser):
    """Begins each test with one window size, and checks for messages on the console."""
    browser.resize(1280)
    browser.prefer("light")
    browser.problems()
    yield
    assert browser.problems() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")
