"""Holds the edges of docs/ARCHITECTURE.md: which folder may include which header."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "poptorch_cpp"

# What each library may include directly; the rest follows transitively.
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
    "emulator": ["program", "reference"],
    "storage": ["ir"],
    "session": ["lowering", "emulator", "storage", "include"],
    "inspect": ["session"],
    "frontends": ["session", "include"],
    "include": [],
    "bindings": ["frontends", "inspect"],
}
# Headers of others, and the only places that may include them.
OUTSIDE = {
    r"(torch|ATen|c10)/": r"frontends/torch/|bindings/torch_\w+\.cpp|include/poptorch/",
    r"(oneapi/dnnl/)?dnnl": r"emulator/kernels/",
    r"pybind11/": r"bindings/",
    r"(spdlog|fmt)/": r"support/log\.cpp",
    r"(nlohmann/|xxhash)": r"storage/",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def reachable(library):
    return {library}.union(*(reachable(next_one) for next_one in EDGES[library]))


def problems(path):
    name = path.relative_to(ROOT).as_posix()
    library = name.split("/")[0]
    for header in INCLUDE.findall(path.read_text()):
        target = header.split("/")[0]
        if target in EDGES and "/" in header and target not in reachable(library):
            yield f"{name}: {library} must not include {header}"
        for pattern, allowed in OUTSIDE.items():
            if re.match(pattern, header) and not re.match(allowed, name):
                yield f"{name}: {header} may only be included in {allowed}"


def main():
    files = [p for p in sorted(ROOT.rglob("*")) if p.suffix in (".cpp", ".hpp")]
    found = [problem for path in files for problem in problems(path)]
    print("\n".join(found) or f"layers: {len(files)} files hold the edges")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
