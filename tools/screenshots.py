"""Takes the pictures of docs/howto/report.md in headless Chromium: `python tools/screenshots.py`.

They show pages of the report that examples/python/reporting.py writes. The package must be
importable.
"""

import contextlib
import os
import runpy
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "reports"))
import browsing  # noqa: E402

WIDTH = 1280
MOST_BYTES = 150 * 1024
# Picture → the page and its height.
PICTURES = {
    "summary": ("summary", 1000),
    "memory": ("memory?ipu=1", 1180),
    "execution": ("execution?from={begin}&to={end}&event={event}", 760),
    "pipeline": ("execution?by=micro_batch", 500),
    "graph": ("graph?view=ops&op={op}", 1180),
    "crossings": ("graph?view=placement", 720),
    "compile": ("compile", 900),
    "compare": ("compare", 1240),
}


def written(folder):
    """Writes the report of the example, run from its folder so that paths are short."""
    with contextlib.chdir(ROOT / "examples" / "python"):
        example = runpy.run_path("reporting.py")
        example["main"](folder)
    return folder / "compared" / "report.html", example["files"].read(folder / "compared")


def chosen(data):
    """Returns an op of the forward pass, an event of it, and a part of the time around that."""
    strings, rows = data["strings"], data["instructions"]
    ops = (
        row
        for row, (op, stage) in enumerate(zip(rows["op"], rows["stage"], strict=True))
        if strings[op] == "linear" and stage == 1 and strings[rows["module"][row]].endswith("mlp.0")
    )
    op = next(ops)
    events = data["execution"]["events"]
    event = events["instruction"].index(op)
    start = events["start"][event]
    return {"op": op, "event": event, "begin": start - 9000, "end": start + 16000}


def take(browser, name, height):
    browser.resize(WIDTH, height)
    browser.wait()
    picture = Image.open(BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    # 256 colours, also the rare ones: a third of the bytes, without a visible difference.
    small = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    file = IMAGES / f"report-{name}.png"
    small.save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{file.name} has {size} bytes, the limit is {MOST_BYTES}: make it lower")


def main():
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browsing.opened() as browser:
        file, data = written(Path(folder))
        values = chosen(data)
        for name, (target, height) in PICTURES.items():
            browser.resize(WIDTH, height)
            browser.open(file, target.format(**values))
            take(browser, name, height)
        if problems := browser.problems():
            sys.exit("\n".join(problems))


if __name__ == "__main__":
    os.environ.setdefault("POPTORCH_LOG_LEVEL", "ERR")
    main()
