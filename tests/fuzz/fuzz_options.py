"""The fuzzer of option texts: files of setter calls, and JSON.

    python tests/fuzz/fuzz_options.py --runs 20000 [--seed 0] [CORPUS]

With atheris installed it uses libFuzzer, guided by the coverage of the reader. Without it, texts
are mutated at random from the seed. A text is applied or refused, never executed. The fuzzer fails
if an audit hook of the interpreter notices an execution, or if an exception is not one of this
project.
"""

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import poptorch
from poptorch import _logging

CORPUS = Path(__file__).parent / "corpus" / "options"
PIECES = [
    *"()[]{}.,:='\"\\#-+*~\n\x00é",
    *("0", "1", "4", "-1", "1e999", "9" * 20, "9" * 5000, "1_0", "1j", "0x1f", "nan", "..."),
    *("True", "None", "'x'", "b'x'", "f'{1}'", "[1]", "(1,)", "{'IPU0': 0.5}", "{[]: 1}", "{1, 2}"),
    *("poptorch.OutputMode.All", "torch.half", "torch.load", "poptorch.Stage('a')", ".ipu(1)"),
    *("lambda: 1", "__class__", "__import__('os')", "_store", "toDict", "open('x', 'w')", "exec"),
    *("*[1]", "**{'a': 1}", "x=1", "x:=1", "1 if 1 else 2", "(yield)", "\udcff", "((" * 200),
    *('{"outputMode": ["OutputMode.All"]}', "null", "true", '"Training"', "-" * 3000),
]
# Events that reading a text may not cause. `compile` makes a syntax tree and nothing else.
FORBIDDEN = ("exec", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "import", "marshal.")
ALLOWED = ("os.putenv", "os.listdir", "os.scandir")


class Watch:
    """Records events of this thread while `on`, except those of the garbage collector."""

    def __init__(self):
        self.on = False
        self.seen = ""  # events that no text may cause
        self._thread = threading.get_ident()
        sys.addaudithook(self._see)

    def __enter__(self):
        gc.disable()
        self.on, self.seen = True, ""

    def __exit__(self, *_):
        self.on = False
        gc.enable()

    def _see(self, event, arguments):
        if not self.on or event in ALLOWED or threading.get_ident() != self._thread:
            return
        if event == "import" and arguments[0].startswith("encodings."):  # the interpreter's own
            return
        written = (
            event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        )
        if written or event.startswith(FORBIDDEN):
            self.on = False
            self.seen = f"the text made the interpreter do {event} {arguments!r}"
            raise SystemError(self.seen)


WATCH = None
_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
_file = tempfile.NamedTemporaryFile(prefix="options-", dir=_memory)


def is_ours(error: Exception) -> bool:
    """Returns whether the error is a refusal by a setter or the reader."""
    if isinstance(error, poptorch.Error):
        return True
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, (AssertionError, ValueError)) and "poptorch" in Path(place).parts


def apply(data: bytes) -> bool:
    """Returns whether the text was accepted. Raises errors that are not refusals."""
    global WATCH
    options = poptorch.Options()
    if WATCH is None:  # late imports
        options.loadFromFile(os.devnull)
        for text in sorted(CORPUS.glob("*.txt")):
            try:
                options.clone().loadFromFile(text)
            except Exception:  # only for its imports
                pass
        WATCH = Watch()
    is_json = data.lstrip().startswith((b"{", b"["))
    if not is_json:
        _file.seek(0)
        _file.truncate()
        _file.write(data)
        _file.flush()
    try:
        with WATCH:
            if is_json:
                options.from_json(data.decode("utf-8", "replace"))
            else:
                options.loadFromFile(_file.name)
    except Exception as error:
        if WATCH.seen:
            raise SystemError(WATCH.seen) from error
        if not is_ours(error):
            raise
        str(error).encode()  # a message is text
        return False
    repr(options.clone())
    return True


def mutated(data: bytes, numbers: random.Random) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(numbers.choice([0, 1, 1, 2, 3])):
        at = numbers.randint(0, len(text))
        end = min(len(text), at + numbers.choice([0, 0, 1, 4]))
        text = text[:at] + numbers.choice(PIECES) + text[end:]
    return text.encode("utf-8", "surrogateescape")


def seeds(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def fuzz_at_random(folder: Path, runs: int, seed: int) -> tuple[int, int]:
    """Returns how many texts were accepted, and refused."""
    numbers = random.Random(seed)
    texts = seeds(folder)
    taken = sum(apply(mutated(numbers.choice(texts), numbers)) for _ in range(runs))
    return taken, runs - taken


def fuzz_by_coverage(atheris, folder: Path, runs: int, seed: int) -> None:
    from poptorch import options
    from poptorch._impl.options import checks, definitions, parsing, rows
    from poptorch._impl.placement import strategies

    tables = (checks, rows, definitions, options)
    for module in (parsing, strategies, *tables):
        for name, function in vars(module).items():
            if getattr(function, "__module__", None) == module.__name__ and callable(function):
                if not isinstance(function, type):
                    setattr(module, name, atheris.instrument_func(function))

    def mutate(data, most, number):
        if number % 2:
            return atheris.Mutate(data, most)
        return mutated(data, random.Random(number))[:most]

    with tempfile.TemporaryDirectory() as found:
        flags = [sys.argv[0], f"-runs={runs}", f"-seed={seed + 1}", "-max_len=2000", "-timeout=25"]
        flags += ["-print_final_stats=1", found, str(folder)]
        atheris.Setup(flags, lambda data: apply(data) and None, custom_mutator=mutate)
        atheris.Fuzz()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("corpus", type=Path, nargs="?", default=CORPUS)
    asked = parser.parse_args()
    poptorch.setLogLevel("OFF")
    _logging.logger.disabled = True
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: texts are changed at random")
        print("taken, refused:", *fuzz_at_random(asked.corpus, asked.runs, asked.seed))
    else:
        fuzz_by_coverage(atheris, asked.corpus, asked.runs, asked.seed)


if __name__ == "__main__":
    main()
