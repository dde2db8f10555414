"""A pytest plugin that runs tests in several placements of their models.

    pytest -p poptorch.integrations.pytest_plugin --poptorch-placement pipelined,replicated

A test that wraps models runs once as it is, and once more in each placement of the option. Results
must not depend on the placement. The fixture `ipu_pool` gives a test a separate pool of IPUs.
"""

from collections.abc import Iterator

import pytest
from poptorch.integrations import placements

_ALL = "all"
_CHANGES = pytest.StashKey[tuple[str, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    names = ", ".join(placements.PLACEMENTS)
    parser.getgroup("poptorch").addoption(
        "--poptorch-placement",
        default="",
        metavar="NAMES",
        help=f"also run each test in these placements of its models: {_ALL}, or some of {names}",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and checks the option."""
    config.addinivalue_line(
        "markers", "one_placement(reason): run the test only as it is, in no other placement"
    )
    _asked(config)


def _asked(config: pytest.Config) -> list[str]:
    given = str(config.getoption("--poptorch-placement"))
    names = list(placements.PLACEMENTS) if given == _ALL else [n for n in given.split(",") if n]
    if unknown := [name for name in names if name not in placements.PLACEMENTS]:
        known = ", ".join([_ALL, *placements.PLACEMENTS])
        raise pytest.UsageError(
            f"--poptorch-placement has {', '.join(unknown)}. Choose some of {known}."
        )
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Adds the placements of the option as parameters."""
    names = _asked(metafunc.config)
    if names and not list(metafunc.definition.iter_markers("one_placement")):
        unchanged = pytest.param(None, id=pytest.HIDDEN_PARAM)
        metafunc.parametrize("poptorch_placement", [unchanged, *names], indirect=True)


@pytest.fixture(autouse=True)
def poptorch_placement(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The name of the placement in which the test runs; None if it runs as it is."""
    name = getattr(request, "param", None)
    if name is None:
        yield None
        return
    changes: list[str] = []
    request.node.stash[_CHANGES] = name, changes
    with placements.using(placements.PLACEMENTS[name], changes):
        yield name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Adds to a failure the placement of the test's models."""
    report = yield
    if report.failed and (found := item.stash.get(_CHANGES, None)):
        name, changes = found
        text = "\n".join(changes) or "no model was wrapped"
        report.sections.append((f"poptorch placement: {name}", text))
    return report


@pytest.fixture
def ipu_pool(tmp_path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Gives the test 64 IPUs that no other test holds. Returns the value of POPTORCH_IPU_POOL."""
    value = f"64:2:{tmp_path / 'ipus'}"
    monkeypatch.setenv("POPTORCH_IPU_POOL", value)
    return value
