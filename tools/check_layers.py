"""Checks the dependencies of docs/ARCHITECTURE.md: which folder may include which header.

It also limits how many source files a header reaches, directly and through other headers. Each of
them is compiled again when the header changes.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "poptorch_cpp"

# The folders that each folder may include directly; the rest follows transitively. A file belongs
# to the longest name here that its path begins with.
EDGES = {
    "support": [],
    "ir": ["support"],
    "ops": ["ir", "include"],
    "target": ["support"],
    "program": ["ir", "target"],
    "reference": ["ops"],
    "transforms": ["ops", "reference"],
    "partition": ["transforms", "target"],
    "lowering": ["partition", "program"],
    "emulator/host": ["support"],
    "emulator/kernels/base": ["reference"],
    "emulator/kernels/simd": ["support"],
    "emulator/kernels/sets": ["emulator/kernels/base", "emulator/kernels/simd"],
    "emulator/kernels/conv": ["emulator/kernels/sets"],
    "emulator/kernels/index": ["emulator/kernels/sets"],
    "emulator/kernels/matmul": ["emulator/kernels/sets"],
    "emulator/kernels/move": ["emulator/kernels/base"],
    "emulator/kernels/random": ["emulator/kernels/sets"],
    "emulator/kernels/tile": ["emulator/kernels/sets"],
    "emulator/kernels": ["emulator/kernels/sets"],
    "emulator/providers": ["emulator/kernels"],
    "emulator/bound": ["emulator/kernels", "program"],
    "emulator/bind": ["emulator/bound", "emulator/providers"],
    "emulator/transport": ["emulator/host"],
    "emulator/collectives": ["emulator/bound", "emulator/transport", "storage"],
    "emulator/run": ["emulator/collectives"],
    "emulator": ["emulator/bind", "emulator/run"],
    "storage": ["ir"],
    "account": ["program", "include"],
    "compile": ["account", "lowering", "emulator/bound", "storage"],
    "session": ["compile", "emulator", "include"],
    "frontends/torch/aten": ["transforms"],
    "frontends/torch/tracer/op_facts": ["frontends/torch/aten"],
    "frontends/torch/tracer/values": ["frontends/torch/aten"],
    "frontends/torch/tracer/calls": [
        "frontends/torch/tracer/op_facts",
        "frontends/torch/tracer/values",
    ],
    "frontends/torch/tracer/graph": ["frontends/torch/tracer/calls"],
    "frontends/torch/tracer/dispatch": ["frontends/torch/tracer/graph"],
    "frontends": ["frontends/torch/tracer/dispatch", "session"],
    "include": [],
    "bindings": ["frontends"],
}
# External headers, and the only places that may include them.
OUTSIDE = {
    r"(torch|ATen|c10)/": r"frontends/torch/|bindings/torch_\w+\.cpp|include/poptorch/",
    r"(oneapi/dnnl/)?dnnl": r"emulator/kernels/",
    r"pybind11/": r"bindings/",
    r"(spdlog|fmt)/": r"support/log\.cpp",
    r"(nlohmann/|xxhash)": r"storage/",
}
# The most source files that a header may reach. Forward declarations keep it there.
REACH = {
    "ir/module.hpp": 180,
    "ir/op_def.hpp": 150,
    "ir/execution.hpp": 60,
    "reference/random_key.hpp": 110,  # five numbers, which every kernel's arguments have
    "emulator/kernels/base/memory_layout.hpp": 110,  # an enumeration, in every kernel's request
    "program/base.hpp": 110,  # an enumeration and ids
    "emulator/transport/fabric.hpp": 25,
    "emulator/engine.hpp": 15,
}
# Any other header, except those of the vocabulary that everything is written in.
REACH_OF_OTHERS = 100
VOCABULARY = ("support/", "ir/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def reachable(library):
    return {library}.union(*(reachable(next_one) for next_one in EDGES[library]))


def library_of(name):
    """Returns the folder in EDGES of a file, named relative to ROOT; None if it has none."""
    folders = name.split("/")[:-1]
    parts = ["/".join(folders[:depth]) for depth in range(len(folders), 0, -1)]
    return next((part for part in parts if part in EDGES), None)


def problems(path):
    name = path.relative_to(ROOT).as_posix()
    library = library_of(name)
    if library is None:
        yield f"{name}: add its folder to EDGES"
        return
    for header in INCLUDE.findall(path.read_text()):
        target = library_of(header)
        if target and target not in reachable(library):
            yield f"{name}: {library} must not include {header}"
        for pattern, allowed in OUTSIDE.items():
            if re.match(pattern, header) and not re.match(allowed, name):
                yield f"{name}: {header} may only be included in {allowed}"


def included(files):
    """Returns file → the project's headers that it includes; all names are relative to ROOT."""
    names = {path.relative_to(ROOT).as_posix() for path in files}
    includes = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        headers = INCLUDE.findall(path.read_text())
        # Include paths are poptorch_cpp and, for the C++ interface, poptorch_cpp/include.
        includes[name] = names & {*headers, *(f"include/{header}" for header in headers)}
    return includes


def closure(name, includes):
    """Returns all headers that a file includes, directly or through others."""
    found, left = set(), [name]
    while left:
        new = includes[left.pop()] - found
        found |= new
        left += new
    return found


def reach(includes):
    """Returns header → the source files that include it, directly or not."""
    seen = {}
    for name in includes:
        if name.endswith(".cpp"):
            for header in closure(name, includes):
                seen.setdefault(header, set()).add(name)
    return seen


def far_reaching(includes):
    seen = reach(includes)
    for header, sources in sorted(seen.items()):
        others = None if header.startswith(VOCABULARY) else REACH_OF_OTHERS
        limit = REACH.get(header, others)
        if limit is None or len(sources) <= limit:
            continue
        via = {name: len(seen.get(name, ())) for name, own in includes.items() if header in own}
        worst = sorted((name for name in via if name.endswith(".hpp")), key=lambda n: -via[n])[:3]
        ways = ", ".join(f"{name} ({via[name]})" for name in worst) or "source files alone"
        yield (
            f"{header}: {len(sources)} source files include it, the limit is {limit}. "
            f"The headers that bring it to most: {ways}. Use forward declarations there."
        )


def main():
    files = [p for p in sorted(ROOT.rglob("*")) if p.suffix in (".cpp", ".hpp")]
    found = [problem for path in files for problem in problems(path)]
    found += far_reaching(included(files))
    print("\n".join(found) or f"layers: {len(files)} files hold the edges, headers their reach")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
