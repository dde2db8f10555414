"""Divides the tests that take long into shares: each run takes one share, the next run another.

`pytest --share` runs a twelfth of the cases of tests with the marker `shared`, and a sixth of the
pairs of a test and a placement configuration (worlds.py). Twelve commits in a row run all cases,
and all pairs twice. Files of tests that one of the last twelve commits changed run completely, so
that a new test does not fail in the share of a later commit. Tests with the marker `nightly` do not
run. The nightly runs all of them.
"""

import collections
import functools
import os
import pathlib
import subprocess
import zlib

import pytest

SHARES = 12  # of the cases with the marker
OF_WORLDS = 6  # of the pairs with a placement configuration


@functools.cache
def of_run():
    """Returns the share of this run, 0 to 11 or "all": WORLD_SHARE, or the next one with every
    commit."""
    given = os.environ.get("WORLD_SHARE", "")
    if given == "all":
        return given
    if given:
        if given not in map(str, range(SHARES)):
            raise pytest.UsageError(
                f"WORLD_SHARE is {given!r}. Set it to 0 to {SHARES - 1}, or all."
            )
        return int(given)
    return int(_git("rev-list", "--count", "HEAD")) % SHARES


@functools.cache
def changed():
    """Returns the names of the test files that the last twelve commits changed.

    Returns none if there are more than twelve, for instance after a renaming, because a run of all
    of them would take too long.
    """
    lines = _git("log", f"-{SHARES}", "--name-only", "--format=", "HEAD").splitlines()
    names = {path.name for path in map(pathlib.Path, lines) if path.match("test_*.py")}
    return frozenset(names if len(names) <= SHARES else ())


def _git(*words):
    folder = pathlib.Path(__file__).parent
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def of_file(name):
    """Returns the share that this run takes of a file's tests."""
    return "all" if name in changed() else of_run()


def taken(things, owner, share, shares=SHARES):
    """Returns the things of the share. Those of one owner, a text, go to the shares in turn."""
    if share == "all":
        return list(things)
    first = zlib.crc32(owner.encode())
    return [thing for place, thing in enumerate(things, first) if place % shares == share % shares]


def split(items, share, of_cases=SHARES, complete=frozenset()):
    """Divides pytest's items into those that the share runs and those that it leaves out.

    Cases of a test with the marker `shared` go to `of_cases` shares, and pairs of a case and a
    configuration to six, except in the files named in `complete`. Tests with the marker `nightly`
    are left out.
    """
    cases, pairs = collections.defaultdict(list), collections.defaultdict(list)
    left = set()
    for item in items:
        if item.get_closest_marker("nightly"):
            left.add(item)
        elif item.get_closest_marker("shared"):
            of_test = pairs if _has_world(item) else cases
            of_test[item.nodeid.partition("[")[0]].append(item)
    for of_tests, shares in ((cases, of_cases), (pairs, OF_WORLDS)):
        for test, its in of_tests.items():
            file = test.partition("::")[0].rpartition("/")[2]
            own = "all" if file in complete else share
            left |= {*its} - {*taken(its, test, own, shares)}
    return [i for i in items if i not in left], [i for i in items if i in left]


def _has_world(item):
    return hasattr(item, "callspec") and bool(item.callspec.params.get("world"))
