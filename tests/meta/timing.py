"""Finds tests that depend on signals, on the order of processes, or on time.

`python tests/meta/timing.py` prints the tests that the list of reasons lacks, and its entries that
no test needs. `--prune` removes these entries. See test_timing.py.
"""

import ast
import functools
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
REASONS = Path(__file__).with_name("timing_reasons.txt")
# Their kills, waits and times do not belong to the test that uses them.
NOT_FOLLOWED = {"zygote", "time_limits", "flaky", "repeated"}

SIGNALS = {"kill", "killpg", "send_signal", "raise_signal", "setitimer", "pidfd_send_signal",
           "fork", "forkpty"}  # fmt: skip
LAUNCHERS = {"poprun", "POPRUN"}
SIGNAL = re.compile(r"SIG[A-Z]{3,4}\d?")
SIGNAL_IN_TEXT = re.compile(
    r"\bos\.(kill|killpg|fork)\(|send_signal|raise_signal|\.kill\(|\bSIG(INT|TERM|KILL|STOP|HUP|USR1)\b"
)
SLEEP_IN_TEXT = re.compile(r"\btime\.sleep\(")
CLOCKS = {"time.monotonic", "time.perf_counter", "time.process_time", "time.time"}


@functools.cache
def parts_of(node):
    """Returns all nodes below a node, which several questions visit."""
    return tuple(ast.walk(node))


@functools.cache
def module_of(path):
    """Returns the top-level names of a file (name → node), and its imported files (name → path)."""
    tree, names, files = ast.parse(path.read_text()), {}, {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                names[name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if file := file_of(path, alias.name):
                    files[alias.asname or alias.name] = file, None
        elif isinstance(node, ast.ImportFrom) and (file := file_of(path, node.module or "")):
            for alias in node.names:
                files[alias.asname or alias.name] = file, alias.name
    return tree, names, files


def file_of(path, module):
    """Returns the project's file that an import names."""
    places = [] if module in NOT_FOLLOWED else [path.parent, path.parents[1], TESTS]
    return next((f for p in places if (f := p / f"{module}.py").exists()), None)


def reached(path, node, seen):
    """Yields a node, and the nodes that it uses in this file and in those that it imports."""
    if (path, node) in seen:
        return
    seen.add((path, node))
    yield node
    for file, used in used_by(path, node):
        yield from reached(file, used, seen)


@functools.cache
def used_by(path, node):
    """Yields the nodes that a node names, each with its file."""
    _, names, files = module_of(path)
    found = []
    for part in parts_of(node):
        if isinstance(part, (ast.Name, ast.arg)):
            name = part.id if isinstance(part, ast.Name) else part.arg
            if name in names:
                found.append((path, names[name]))
            elif name in files and files[name][1]:
                found += of_file(*files[name])
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            file, own = files.get(part.value.id, (None, None))
            if file and own is None and part.attr == "__file__":  # it is started as a program
                found.append((file, module_of(file)[0]))
            elif file and own is None:
                found += of_file(file, part.attr)
        elif isinstance(part, ast.Constant) and str(part.value).endswith(".py"):
            folders = [path.parent] + [f for f in path.parents[1:2] if f != TESTS]
            for program in (folder / str(part.value) for folder in folders):
                if program.is_file() and not program.name.startswith("test_"):
                    found.append((program, module_of(program)[0]))
    return found


def of_file(file, name):
    node = module_of(file)[1].get(name)
    return [] if node is None else [(file, node)]


@functools.cache
def uses_signals(node):
    for part in parts_of(node):
        if isinstance(part, ast.Attribute):
            if part.attr in SIGNALS or SIGNAL.fullmatch(part.attr):
                return True
            if part.attr == "terminate" and "process" in ast.unparse(part.value):
                return True
        elif isinstance(part, ast.Name) and part.id in LAUNCHERS:
            return True
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            if SIGNAL_IN_TEXT.search(part.value):
                return True
    return False


def tests_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def without_marker():
    """Returns `file::test` of each test that uses signals and has no case with the marker."""
    for file in sorted(TESTS.rglob("test_*.py")):
        if file.stem == "test_timing":
            continue
        tree, names, _ = module_of(file)
        marks = "mark.signals" in ast.unparse(names.get("pytestmark", ast.Pass()))
        for test in [] if marks else tests_of(tree):
            given = ast.unparse(ast.Tuple(test.decorator_list))
            used = [names[n] for n in re.findall(r"\w+", given) if n in names]
            if "mark.signals" in given + "".join(map(ast.unparse, used)):
                continue
            if any(map(uses_signals, reached(file, test, set()))):
                yield f"{file.relative_to(TESTS)}::{test.name}"


def clocked(scope):
    """Returns names in a function that hold a time."""
    found = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and tells_time(node.value, found):
            found |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return found


def tells_time(node, names):
    return any(
        (isinstance(part, ast.Call) and ast.unparse(part.func) in CLOCKS)
        or (isinstance(part, ast.Name) and part.id in names)
        for part in ast.walk(node)
    )


def waits_or_bounds():
    """Returns `file::function` of functions that sleep, or assert a duration."""
    files = [f for f in sorted(TESTS.rglob("*.py")) if f.parent.name != "nightly"]
    for file in files:
        if file.stem in NOT_FOLLOWED or "timing" in file.stem:
            continue
        if not any(word in file.read_text() for word in ("sleep(", *CLOCKS)):
            continue
        for top in module_of(file)[0].body:
            if isinstance(top, ast.ClassDef):
                scopes = [(f"{top.name}.", node) for node in top.body]
            else:
                scopes = [("", top)]
            for prefix, scope in scopes:
                if has_time(scope):
                    name = getattr(scope, "name", None) or first_name(scope)
                    yield f"{file.relative_to(TESTS)}::{prefix}{name}"


def first_name(statement):
    """Returns the name of a top-level statement: the assigned name, or its kind."""
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    return type(statement).__name__.lower()


def has_time(scope):
    names = clocked(scope)
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep"):
            return True
        if isinstance(node, ast.Assert) and tells_time(node.test, names):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if SLEEP_IN_TEXT.search(node.value):
                return True
    return False


FINDERS = {"signals": without_marker, "time": waits_or_bounds}


def reasons():
    """Returns (kind, place) → reason. A place is a file or file::name."""
    found = {}
    for line in REASONS.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, place, reason = line.split(" ", 2)
            found[kind, place.removesuffix(":")] = reason
    return found


def compared():
    """Returns places without a reason, and reasons without a place: pairs of kind and place."""
    given, lacks, needed = reasons(), [], set()
    for kind, finder in FINDERS.items():
        for place in finder():
            entries = {(kind, place), (kind, place.partition("::")[0])} & given.keys()
            needed |= entries
            if not entries:
                lacks.append((kind, place))
    return sorted(set(lacks)), [entry for entry in given if entry not in needed]


def main():
    lacks, excess = compared()
    for kind, place in lacks:
        print(f"lacks a reason: {kind} {place}")
    for kind, place in excess:
        print(f"not needed: {kind} {place}")
    if "--prune" in sys.argv:
        gone = tuple(f"{kind} {place}: " for kind, place in excess)
        lines = REASONS.read_text().splitlines(keepends=True)
        REASONS.write_text("".join(line for line in lines if not line.startswith(gone)))
    return bool(lacks)


if __name__ == "__main__":
    sys.exit(main())
