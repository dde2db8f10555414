"""Shares: a run takes a sixth of the tests that take long, the next run another sixth.

`pytest --share` runs a sixth of the cases of tests with the marker `shared`, and a sixth of the
pairs of a test and a world (worlds.py). Six commits in a row run all of them, and so does each
night.
"""

import collections
import functools
import os
import pathlib
import subprocess
import zlib

import pytest

SHARES = 6


@functools.cache
def of_run():
    """The share of this run, 0 to 5 or "all": WORLD_SHARE, or the next one with every commit."""
    given = os.environ.get("WORLD_SHARE", "")
    if given == "all":
        return given
    if given:
        if given not in map(str, range(SHARES)):
            raise pytest.UsageError(
                f"WORLD_SHARE is {given!r}. Set it to 0 to {SHARES - 1}, or all."
            )
        return int(given)
    count = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=pathlib.Path(__file__).parent,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(count.stdout) % SHARES


def taken(things, owner, share):
    """Those of the share. The things of one owner, a text, are dealt out to the shares in turn."""
    if share == "all":
        return list(things)
    first = zlib.crc32(owner.encode())
    return [thing for place, thing in enumerate(things, first) if place % SHARES == share]


def split(items, share):
    """Divides pytest's items into those that the share runs and those that it leaves out.

    Those that run in a world are of this share: there are no others among the items."""
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("shared") and not _world_of(item):
            cases[item.nodeid.partition("[")[0]].append(item)
    left = set()
    for test, its in cases.items():
        left |= {*its} - {*taken(its, test, share)}
    return [i for i in items if i not in left], [i for i in items if i in left]


def _world_of(item):
    return getattr(item, "callspec", None) and item.callspec.params.get("world")
