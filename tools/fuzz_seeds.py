"""Writes the seeds of the fuzzers, one file per text: python tools/fuzz_seeds.py FOLDER

Seeds are the golden texts of tests/ir: modules go into FOLDER/ir, programs into FOLDER/program.
Every op of tests/ir/verifier/every_op.ir is also written as a separate module, and once more in
training.
"""

import hashlib
import re
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "ir"
MARK = re.compile(r"^// (?:case|with|run|expect|error):.*$", re.MULTILINE)
NAME = re.compile(r"%[\w./]+")
TYPE = re.compile(r"\w+\[[\d,]*\]")


def golden_texts():
    for path in sorted(GOLDEN.rglob("*.*")):
        if path.suffix in (".ir", ".program"):
            for part in MARK.split(path.read_text()):
                if "graph @" in part or part.lstrip().startswith("program"):
                    yield part.strip() + "\n"


class Ops:
    """Returns the ops of @main in every_op.ir, by the names of their results."""

    def __init__(self):
        text = (GOLDEN / "verifier" / "every_op.ir").read_text()
        head, main = text[text.index("state") :].split("graph @main(")
        self.head = head
        signature, body = main.split(" {\n", 1)
        inputs = signature.split(") ->")[0]
        self.inputs = dict(part.split(": ") for part in re.split(r", (?=%)", inputs))
        self.lines = [line for line in body.splitlines() if line.startswith("  %")]
        self.lines += [line for line in body.splitlines() if re.match(r"  \w+\(", line)]
        self.makers = {}
        for line in self.lines:
            for name in NAME.findall(line.split(" = ")[0]) if " = " in line else ():
                self.makers[name] = line

    def needed(self, line, found):
        operands = line.split(" = ", 1)[-1].split(")")[0]
        for name in NAME.findall(operands):
            if name in self.makers:
                self.needed(self.makers[name], found)
            else:
                found.setdefault(name)
        found.setdefault(line)
        return found

    def module(self, line, training):
        found = self.needed(line, {})
        inputs = [name for name in found if name in self.inputs]
        body = [text for text in found if text not in self.inputs]
        results = NAME.findall(line.split(" = ")[0]) if " = " in line else []
        types = TYPE.findall(line.rsplit(" : ", 1)[1]) if results else []
        if training:
            floats = [name for name in inputs if self.inputs[name].startswith("f32")]
            body[:0] = [
                f'  {name} = variable() {{name="{name[1:]}"}} : {self.inputs[name]}'
                for name in floats
                if f'state "{name[1:]}"' not in self.head
            ]
            inputs = [name for name in inputs if f"  {name} = " not in "\n".join(body)]
            losses = [pair for pair in zip(results, types, strict=True) if pair[1][0] == "f"][:1]
            for name, kind in losses:
                dtype = kind.split("[")[0]
                body.append(f'  %loss = identity_loss({name}) {{reduction="sum"}} : {dtype}[]')
                results, types = ["%loss"], [f"{dtype}[]"]
        heads = ", ".join(f"{name}: {self.inputs[name]}" for name in inputs)
        text = f"graph @main({heads}) -> ({', '.join(types)}) {{\n" + "\n".join(body)
        return f"{self.head}{text}\n  return {', '.join(results)}\n}}\n"


def texts():
    yield from golden_texts()
    ops = Ops()
    for line in ops.lines:
        for training in (False, True):
            yield ops.module(line, training)


def main(folder):
    for text in texts():
        kind = "ir" if "graph @" in text else "program"
        (folder / kind).mkdir(parents=True, exist_ok=True)
        name = hashlib.sha1(text.encode()).hexdigest()
        (folder / kind / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
