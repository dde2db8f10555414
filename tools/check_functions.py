"""Checks that no function of the C++ sources has more than 60 lines, except lists and
micro-kernels.

lizard finds the functions. EXCEPTIONS names longer functions with reasons, by a part of the file's
path and the function's name. An exception that no function needs is an error, too.
"""

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import lizard

ROOT = Path(__file__).resolve().parent.parent / "poptorch_cpp"
LIMIT = 60
EXCEPTIONS = {
    (r"bindings/", r"bind_\w+"): "a list of the names of a Python class",
    (r"ops/", r"add_\w+"): "a list of rows",
    (r"support/environment\.cpp", "make_table"): "the table of variables",
    (r"kernels/sets/gemm_tiles\.hpp", "run_tile_of"): "a micro-kernel: its sums are registers",
}


def long_functions(path):
    """Yields (path, function, lines) of the functions of a file that are longer than LIMIT."""
    name = path.relative_to(ROOT).as_posix()
    return [
        (name, function.name.split("::")[-1], function.length)
        for function in lizard.analyze_file(str(path)).function_list
        if function.length > LIMIT
    ]


def judge(functions):
    """Yields problems with long functions, and with EXCEPTIONS."""
    unused = set(EXCEPTIONS)
    for file, name, lines in functions:
        fits = {key for key in EXCEPTIONS if re.match(key[0], file.removeprefix("emulator/"))}
        fits = {key for key in fits if re.fullmatch(key[1], name)}
        unused -= fits
        if not fits:
            yield f"{file}: {name} has {lines} lines, the limit is {LIMIT}. Divide it."
    for file, name in sorted(unused):
        yield f"tools/check_functions.py: no function needs the exception {file} {name}"


def main():
    files = [path for path in sorted(ROOT.rglob("*")) if path.suffix in (".cpp", ".hpp")]
    with ProcessPoolExecutor() as pool:
        found = [one for many in pool.map(long_functions, files, chunksize=16) for one in many]
    problems = list(judge(found))
    print("\n".join(problems) or f"functions: at most {LIMIT} lines, {len(found)} lists longer")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
