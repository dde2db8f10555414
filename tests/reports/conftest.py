"""The browser that tests of pages share, and where they write these."""

import browsing
import pytest


@pytest.fixture(scope="module")
def browser():
    with browsing.opened() as made:
        yield made


@pytest.fixture
def as_before(browser):
    """Each test begins at one size and ends without a word on the console."""
    browser.resize(1280)
    browser.prefer("light")
    browser.problems()
    yield
    assert browser.problems() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")
