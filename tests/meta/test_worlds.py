"""Six shares in a row run every pair of a test and a placement configuration once."""

import ast
import collections
import itertools
from pathlib import Path

import pytest
import shares
import worlds

BEHAVIOUR = Path(__file__).resolve().parents[1] / "behaviour"
TESTS = [
    (file.name, node.name)
    for file in sorted(BEHAVIOUR.rglob("test_*.py"))
    for node in ast.walk(ast.parse(file.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


def pairs(share):
    return [(*test, name) for test in TESTS for name in worlds.share_of(*test, share)]


def test_the_shares_have_every_pair_once():
    parts = [pairs(share) for share in range(shares.OF_WORLDS)]
    whole = [(*test, name) for test in TESTS for name in worlds.asked_for("all", *test)]
    assert len(whole) == len(set(whole)) > 3000
    assert sorted(itertools.chain(*parts)) == sorted(whole) == sorted(pairs("all"))


def test_shares_are_of_one_size_in_every_world():
    whole = collections.Counter(world for *_, world in pairs("all"))
    for share in range(shares.OF_WORLDS):
        found = collections.Counter(world for *_, world in pairs(share))
        for world, count in whole.items():
            assert 0.7 * count < shares.OF_WORLDS * found[world] < 1.3 * count, (share, world)
        assert found.total() * shares.OF_WORLDS == pytest.approx(whole.total(), rel=0.1)
