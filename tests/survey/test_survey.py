"""Runs a seeded sample of the survey, and all its corners and compositions; `make test-ops` runs
all.
"""

import itertools
import re
import zlib

import entries
import handmade
import pytest
import table_page
import torch
import trial
from excused import EXCUSES, is_excused
from refused_page import Page

PASSES = {"same", "raised", "lenient"}
CASES_PER_ENTRY = 2  # and dtype
CASES_TO_CHOOSE_FROM = 40


STEPS = {"forward": trial.run_forward, "training": trial.run_training}
LISTED = Page.read()


def _check(case: entries.Case, entry: str = "") -> None:
    """Checks that an entry of the tables is refused only as the page of docs lists."""
    for step, run in STEPS.items():
        outcome = run(case)
        if outcome is None or outcome.kind in PASSES:
            continue
        if outcome.kind == "refused":
            assert LISTED.has(entry, outcome.text), f"{case.key}, {step}: {outcome.text}"
        else:
            text = f"{case.key}, {step}: {outcome.kind}: {outcome.text}"
            assert is_excused(case.key, step), text


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(c, id=c.key) for c in handmade.corners()])
def test_corner(case):
    _check(case)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(c, id=c.key) for c in handmade.compositions()])
def test_composition(case):
    _check(case)


def _sample(name: str, dtype: torch.dtype) -> list[entries.Case]:
    """Returns the same sample every time: the cases with the lowest checksums."""
    cases = itertools.islice(entries.cases(name, dtype), CASES_TO_CHOOSE_FROM)
    return sorted(cases, key=lambda case: zlib.crc32(case.key.encode()))[:CASES_PER_ENTRY]


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries.names())
def test_sample_of(name):
    for dtype in entries.DTYPES:
        for case in _sample(name, dtype):
            _check(case, name)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda excuse: f"{excuse.witness}, {excuse.step}")
def test_excuse_is_needed(excuse):
    assert is_excused(excuse.witness, excuse.step)
    kind = STEPS[excuse.step](entries.find(excuse.witness)).kind
    assert kind == "wrong" or not excuse.everywhere


def test_excuses_are_few():
    assert len(EXCUSES) <= 40


def has_samples(name: str) -> bool:
    return any(next(iter(entries.cases(name, dtype)), None) for dtype in entries.DTYPES)


def test_the_table_of_docs_has_every_entry():
    listed = re.findall(r"^\| `([^`]+)` \|", table_page.PAGE.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    left_out = set(entries.names()) - set(listed)
    assert len(left_out) < 20 and not any(has_samples(name) for name in left_out)
