"""Takes the pictures of the pages in headless Chromium: `python tools/screenshots.py`.

They show pages of the report that examples/python/reporting.py writes, the plan of its model as a
notebook shows it, and the schedule in a terminal. The package must be importable.
"""

import contextlib
import html
import io
import os
import runpy
import sys
import tempfile
from pathlib import Path

import poptorch
import torch
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
# Pictures of texts: what is around a text, and the height.
TEXTS = {
    "plan": ("<body style='font: 14px sans-serif; margin: 1em'><main>{}</main>", 515),
    "terminal": (
        "<body style='background: #1e1e1e; color: #d4d4d4; margin: 1em'><main><pre "
        "style='font: 15px monospace'>&gt;&gt;&gt; training.printSchedule()\n{}</pre></main>",
        230,
    ),
}


def written(example, folder):
    """Writes the report of the example; returns its file and data."""
    example["main"](folder)
    return folder / "compared" / "report.html", example["files"].read(folder / "compared")


def texts(example):
    """Returns the texts of the pictures as HTML, by name."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        training = example["trained"](example["UNEVEN"], steps=1)
        training.printSchedule()
        model = example["Transformer"](example["UNEVEN"])
        words = torch.zeros(example["BATCH"], example["LENGTH"], dtype=torch.int32)
        plan = poptorch.plan(model, (words, words), num_ipus=4)
    schedule = printed.getvalue()[: printed.getvalue().index("IPU  begins at")]
    return {"plan": plan._repr_html_(), "terminal": html.escape(schedule)}


def chosen(data):
    """Returns an op of the forward pass, an event of it, and a part of the time around that."""
    strings, rows = data["strings"], data["instructions"]
    ops = (
        row
        for row, (op, stage) in enumerate(zip(rows["op"], rows["stage"], strict=True))
        if strings[op] == "linear"
        and stage == 1
        and strings[rows["module"][row]].endswith("linear1")
    )
    op = next(ops)
    events = data["execution"]["events"]
    event = events["instruction"].index(op)
    start = events["start"][event]
    return {"op": op, "event": event, "begin": start - 9000, "end": start + 16000}


def take(browser, file, height):
    browser.resize(WIDTH, height)
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    # 256 colours, also the rare ones: a third of the bytes, without a visible difference.
    small = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{file.name} has {size} bytes, the limit is {MOST_BYTES}: make it lower")


def main():
    IMAGES.mkdir(exist_ok=True)
    os.chdir(ROOT / "examples" / "python")  # paths in pictures are short
    example = runpy.run_path("reporting.py")
    with tempfile.TemporaryDirectory() as folder, browsing.opened() as browser:
        for name, text in texts(example).items():
            around, height = TEXTS[name]
            page = Path(folder, f"{name}.html")
            page.write_text(around.format(text))
            browser.driver.get(f"file://{page}")
            take(browser, IMAGES / f"{name}.png", height)
        file, data = written(example, Path(folder))
        values = chosen(data)
        for name, (target, height) in PICTURES.items():
            browser.resize(WIDTH, height)
            browser.open(file, target.format(**values))
            browser.wait()
            take(browser, IMAGES / f"report-{name}.png", height)
        if problems := browser.problems():
            sys.exit("\n".join(problems))


if __name__ == "__main__":
    os.environ.setdefault("POPTORCH_LOG_LEVEL", "ERR")
    main()
