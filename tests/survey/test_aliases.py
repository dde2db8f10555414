"""Tests a sample of each entry's calls for shared memory; `make test-ops` tests all calls."""

import itertools
import re
import zlib

import aliases
import entries
import memory_page
import pytest
import torch

PASSES = {"same", "raised", "refused"}
CASES_TO_CHOOSE_FROM = 40
LISTED = memory_page.listed()


def _sample(name: str, dtype: torch.dtype):
    """Returns the same cases every time: those with the lowest checksum."""
    cases = itertools.islice(aliases.memory_cases(name, dtype), CASES_TO_CHOOSE_FROM)
    return sorted(cases, key=lambda case: zlib.crc32(case.key.encode()))[:1]


def _check(case: entries.Case) -> None:
    for step, key, found in aliases.outcomes(case):
        assert found.kind in PASSES, f"{key}, {step}: {found.kind}: {found.text}"


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries.names())
def test_memory_of(name):
    for dtype in aliases.DTYPES:
        for case in _sample(name, dtype):
            _check(case)


@pytest.mark.parametrize("name", ["nn.functional.dropout", "positive", "unsafe_chunk", "conj"])
def test_the_page_lists(name):
    assert re.match("operand", LISTED[name])


def test_the_page_has_every_entry():
    left_out = set(entries.names()) - set(LISTED)
    assert len(left_out) < 60
    assert not any("view" in name or "split" in name for name in left_out)
