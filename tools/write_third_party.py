#!/usr/bin/env python3
"""Writes third_party: the header-only libraries of the C++ core, as Debian 12 packages them.

Copies the headers that the sources include, directly or through others, and each library's licence.
`apt-get download` fetches the packages into a temporary folder. `third_party/README.md` lists the
versions.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "third_party"
# Package, the library, its home page, its licence.
PACKAGES = (
    ("libspdlog-dev", "spdlog", "https://github.com/gabime/spdlog", "MIT"),
    ("libfmt-dev", "fmt", "https://fmt.dev", "MIT"),
    ("nlohmann-json3-dev", "nlohmann-json", "https://json.nlohmann.me", "MIT"),
    ("libxxhash-dev", "xxHash", "https://xxhash.com", "BSD-2-Clause"),
)
INCLUDED = re.compile(r"#include <((?:spdlog|fmt|nlohmann)/[\w./-]+|xxhash\.h)>")
ABOUT = """# Libraries of other projects

The C++ core includes the headers of these libraries. `tools/write_third_party.py` copies them from
packages of Debian; do not change them by hand.

| library | version | licence | home page |
|---|---|---|---|
"""


def unpack(package, folder):
    """Unpacks a package of the distribution, and returns its version without Debian's parts."""
    subprocess.run(["apt-get", "-qq", "download", package], cwd=folder, check=True)
    (archive,) = folder.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, folder / "all"], check=True)
    field = ["dpkg-deb", "-f", archive, "Version"]
    full = subprocess.run(field, check=True, capture_output=True, text=True).stdout.strip()
    return re.sub(r"^\d+:|[-+].*$", "", full)


def headers_of(include):
    """Returns the unpacked headers that compiling all sources reads, relative to `include`."""
    named = set()
    for source in sorted((ROOT / "poptorch_cpp").rglob("*.[ch]pp")):
        named.update(INCLUDED.findall(source.read_text()))
    defines = ["-DSPDLOG_FMT_EXTERNAL", "-DFMT_HEADER_ONLY=1"]
    command = ["g++", "-std=c++20", "-M", *defines, f"-isystem{include}", "-x", "c++", "-"]
    text = "".join(f"#include <{name}>\n" for name in sorted(named))
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True)
    paths = [Path(word).resolve() for word in done.stdout.split() if word.startswith(str(include))]
    return sorted({path.relative_to(include) for path in paths})


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        versions = {package: unpack(package, folder) for package, *_ in PACKAGES}
        include = folder / "all/usr/include"
        shutil.rmtree(TARGET, ignore_errors=True)
        for header in headers_of(include):
            (TARGET / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(include / header, TARGET / "include" / header)
        (TARGET / "licences").mkdir()
        about = ABOUT
        for package, library, home, licence in PACKAGES:
            copied = TARGET / "licences" / f"{library}.txt"
            shutil.copyfile(folder / "all/usr/share/doc" / package / "copyright", copied)
            text = f"[{licence}](licences/{library}.txt)"
            about += f"| {library} | {versions[package]} | {text} | <{home}> |\n"
        (TARGET / "README.md").write_text(about)
    print(f"third_party: {len(list(TARGET.rglob('*.h*')))} headers of {len(PACKAGES)} libraries")


if __name__ == "__main__":
    main()
