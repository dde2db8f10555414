"""Tests which tests a share of a run contains."""

import collections
import types

import pytest
import shares


class Item:
    """A case of a test, as pytest presents it."""

    def __init__(self, test, case, marker="shared", world=None):
        self.nodeid, self.marker = f"tests/a/test_{test}.py::test_it[{case}]", marker
        self.callspec = types.SimpleNamespace(params={"world": world})

    def get_closest_marker(self, name):
        return name if name == self.marker else None


def test_the_shares_have_every_marked_case_once():
    marked = [Item(test, case) for test in range(5) for case in range(40)]
    runs, left = zip(*(shares.split(marked, share) for share in range(shares.SHARES)), strict=True)
    assert collections.Counter(item for run in runs for item in run) == dict.fromkeys(marked, 1)
    assert all({*run} | {*rest} == {*marked} for run, rest in zip(runs, left, strict=True))
    for run in runs:  # the same number of cases of every test
        assert set(collections.Counter(i.nodeid.partition("[")[0] for i in run).values()) <= {3, 4}


def test_six_shares_have_every_pair_of_a_marked_case_and_a_world_once():
    pairs = [Item(0, case, world=world) for case in range(9) for world in ("one", "two")]
    runs = [shares.split(pairs, share)[0] for share in range(shares.SHARES)]
    assert runs[: shares.OF_WORLDS] == runs[shares.OF_WORLDS :]
    found = collections.Counter(item for run in runs[: shares.OF_WORLDS] for item in run)
    assert found == dict.fromkeys(pairs, 1)


def test_fewer_shares_have_more_cases():
    marked = [Item(0, case) for case in range(30)]
    for first in range(shares.SHARES - 2):
        runs = [shares.split(marked, first + share, of_cases=3)[0] for share in range(3)]
        assert collections.Counter(item for run in runs for item in run) == dict.fromkeys(marked, 1)


def test_other_cases_and_all_shares_leave_nothing_out():
    items = [Item(0, case, marker=None) for case in range(20)]
    assert shares.split(items, 3) == (items, [])
    marked = [Item(0, case) for case in range(20)]
    assert shares.split(marked, "all") == (marked, [])


def test_files_that_changed_run_completely():
    old, new = ([Item(test, case) for case in range(20)] for test in range(2))
    runs, left = shares.split(old + new, 3, complete={"test_1.py"})
    assert (runs, left) == (shares.split(old, 3)[0] + new, shares.split(old, 3)[1])


@pytest.mark.parametrize("count, expected", [(12, 12), (13, 0)])
def test_the_last_commits_tell_what_changed(count, expected, monkeypatch):
    class Done:
        stdout = "".join(f"tests/ops/test_{i}.py\n\nsrc/{i}.cpp\n" for i in range(count))

    monkeypatch.setattr(shares.subprocess, "run", lambda *words, **more: Done)
    assert len(shares.changed.__wrapped__()) == expected


@pytest.mark.parametrize("share", [3, "all"])
def test_no_share_has_the_tests_of_the_night(share):
    night, sound = Item(0, 0, marker="nightly"), Item(1, 0, marker=None)
    assert shares.split([night, sound], share) == ([sound], [night])


@pytest.mark.parametrize("given, expected", [("0", 0), ("11", 11), ("all", "all")])
def test_the_variable_chooses_a_share(given, expected, monkeypatch):
    monkeypatch.setenv("WORLD_SHARE", given)
    assert shares.of_run.__wrapped__() == expected


def test_other_values_are_refused(monkeypatch):
    for given in ("12", "-1", "third"):
        monkeypatch.setenv("WORLD_SHARE", given)
        with pytest.raises(pytest.UsageError, match="Set it to 0 to 11, or all"):
            shares.of_run.__wrapped__()


def test_without_the_variable_the_number_of_commits_chooses(monkeypatch):
    monkeypatch.delenv("WORLD_SHARE", raising=False)

    class Done:
        stdout = "1234\n"

    monkeypatch.setattr(shares.subprocess, "run", lambda *words, **more: Done)
    assert shares.of_run.__wrapped__() == 1234 % 12
