"""Shares of the worlds: six runs in a row have every pair of a test and a world once."""

import ast
import collections
import itertools
from pathlib import Path

import pytest
import worlds

BEHAVIOUR = Path(__file__).resolve().parents[1] / "behaviour"
TESTS = [
    (file.name, node.name)
    for file in sorted(BEHAVIOUR.glob("test_*.py"))
    for node in ast.walk(ast.parse(file.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


def pairs(asked, share):
    return [(*test, name) for test in TESTS for name in worlds.asked_for(asked, *test, share=share)]


def test_the_shares_have_every_pair_once():
    shares = [pairs("share", share) for share in range(worlds.SHARES)]
    whole = pairs("all", "all")
    assert len(whole) == len(set(whole)) > 3000
    assert sorted(itertools.chain(*shares)) == sorted(whole) == sorted(pairs("share", "all"))


def test_shares_are_of_one_size_in_every_world():
    whole = collections.Counter(world for *_, world in pairs("all", "all"))
    for share in range(worlds.SHARES):
        found = collections.Counter(world for *_, world in pairs("share", share))
        for world, count in whole.items():
            assert 0.7 * count < worlds.SHARES * found[world] < 1.3 * count, (share, world)
        assert found.total() * worlds.SHARES == pytest.approx(whole.total(), rel=0.1)


@pytest.mark.parametrize("given, expected", [("0", 0), ("5", 5), ("all", "all")])
def test_the_variable_chooses_a_share(given, expected, monkeypatch):
    monkeypatch.setenv("WORLD_SHARE", given)
    assert worlds.share_of_run.__wrapped__() == expected


def test_other_values_are_refused(monkeypatch):
    for given in ("6", "-1", "third"):
        monkeypatch.setenv("WORLD_SHARE", given)
        with pytest.raises(ValueError, match="Set it to 0 to 5, or all"):
            worlds.share_of_run.__wrapped__()


def test_without_the_variable_the_number_of_commits_chooses(monkeypatch):
    monkeypatch.delenv("WORLD_SHARE", raising=False)

    class Done:
        stdout = "1234\n"

    monkeypatch.setattr(worlds.subprocess, "run", lambda *words, **more: Done)
    assert worlds.share_of_run.__wrapped__() == 1234 % 6
