"""Executes the allocations of a program's text, without the compiler's code for lifetimes.

Every loop runs all its rounds. A value holds its bytes from its write to its last read, and a slot
of a stash from the value's arrival to the last time that it is fetched. The temporary data of an
instruction holds its bytes while the instruction runs.
"""

import math
import re
from dataclasses import dataclass, field

_BYTES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2,
          "i16": 2, "u16": 2}  # fmt: skip
_TYPE = r"(\w+)\[([\d,]*)\]"
_INSTRUCTION = re.compile(r"^(?:(?P<outputs>[%_].*?) = )?(?P<name>\w+)\((?P<inputs>[^)]*)\)")
_INT = re.compile(r"\b(\w+)=(-?\d+)")


def bytes_of(dtype, dims):
    shape = [int(dim) for dim in dims.split(",") if dim]
    return _BYTES.get(dtype, 1) * math.prod(shape)


@dataclass
class Instruction:
    name: str
    inputs: list[str]
    outputs: list[str]
    fields: dict[str, int]  # integers of the bracket
    in_place: list[int]
    count: int = 1
    counts_batches: bool = False  # of a loop
    blocks: list[list["Instruction"]] = field(default_factory=list)


@dataclass
class Program:
    tensors: dict[str, tuple[str, int, int, str]] = field(default_factory=dict)  # base, offset,
    # bytes, and the name or number of the state or constant
    states: dict[str, dict] = field(default_factory=dict)
    constants: list[int] = field(default_factory=list)
    stashes: list[tuple[int, int, int]] = field(default_factory=list)  # bytes, depth, IPU
    ipu_of: dict[str, int] = field(default_factory=dict)  # by tensor
    ipus: list[tuple[dict[str, int], list[Instruction]]] = field(default_factory=list)


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()]


def _ints(text):
    return {name: int(value) for name, value in _INT.findall(text)}


def _instruction(line):
    found = _INSTRUCTION.match(line)
    bracket = line.rpartition(" @[")[2] if " @[" in line else ""
    bracket = re.sub(r'"[^"]*"', "", bracket).partition(" scope(")[0]
    in_place = re.search(r"in_place=\[([-\d, ]*)\]", bracket)
    made = Instruction(
        found["name"],
        _names(found["inputs"]),
        _names(found["outputs"] or ""),
        _ints(re.sub(r"in_place=\[[^]]*\]", "", bracket)),
        [int(n) for n in in_place[1].split(",")] if in_place else [],
    )
    if made.name == "loop":
        made.count, made.inputs = int(made.inputs[0]), []
        made.counts_batches = "per_micro_batch=true" in bracket
    return made


def parse(text):
    program, stack = Program(), []
    for raw in text.splitlines():
        line = raw.strip()
        if line == "}":
            stack.pop()
        elif line == "} else {":
            stack.pop()
            stack[-1][-1].blocks.append([])
            stack.append(stack[-1][-1].blocks[-1])
        elif stack:
            made = _instruction(line)
            stack[-1].append(made)
            if line.endswith(" {"):
                made.blocks.append([])
                stack.append(made.blocks[0])
        elif line.startswith("ipu "):
            program.ipus.append((_ints(line), []))
            stack.append(program.ipus[-1][1])
        else:
            _declaration(program, line)
    return program


def _declaration(program, line):
    kind = line.partition(" ")[0]
    if kind == "tensor":
        name, dtype, dims, rest = re.match(rf"tensor (%\S+) : {_TYPE}(.*)", line).groups()
        base, inside = re.search(r" at (\w+)\((.*)\)$", rest).groups()
        offset = int(inside) if base == "arena" else 0
        program.tensors[name] = (base, offset, bytes_of(dtype, dims), inside)
        program.ipu_of[name] = _ints(rest.partition(" at ")[0]).get("ipu", 0)
    elif kind == "state":
        name, dtype, dims, rest = re.match(rf'state "([^"]+)" : {_TYPE}(.*)', line).groups()
        said = _ints(rest)
        program.states[name] = {
            "bytes": -(-bytes_of(dtype, dims) // said.get("shards", 1)),
            "on_chip": "on_chip=false" not in rest,
        }
    elif kind == "constant":
        program.constants.append(bytes_of(*re.search(_TYPE, line).groups()))
    elif kind == "stash":
        said = _ints(line)
        size = bytes_of(*re.search(_TYPE, line).groups())
        program.stashes.append((size, said.get("depth", 1), said.get("ipu", 0)))


class Replay:
    """The events of one IPU in a run, in order."""

    def __init__(self, program, ipu):
        self.program, self.ipu = program, ipu
        self.events = []  # ("read", "write" or "use", value); "use": temporary data
        self.joined = {}  # values written in place of another: union-find over numbers
        self.current = {}  # by tensor: the number of its value
        self.sizes = []  # by value: (offset, bytes)
        self.stashed = {}  # by stash and slot: micro-batch
        self.ending = []  # temporary data of the instruction, and its operands
        self.held = []  # ("keep" or "fetch", stash, micro-batch)
        self.counter = 0
        self.run(program.ipus[ipu][1])

    def run(self, block):
        for instruction in block:
            self.step(instruction)
            if instruction.name == "loop":
                for _ in range(instruction.count):
                    self.run(instruction.blocks[0])
                    step = instruction.counts_batches - instruction.fields.get("rewind", 0)
                    self.counter += step
            else:
                for inner in instruction.blocks:
                    self.run(inner)

    def step(self, instruction):
        operands = [self.value(name) for name in instruction.inputs]
        for value in operands:
            if value is not None:
                self.events.append(("read", value))
        self.note_temporary(instruction, operands)
        self.note_stash(instruction)
        for i, name in enumerate(instruction.outputs):
            base, offset, size, _ = self.program.tensors.get(name, ("", 0, 0, ""))
            if base != "arena":
                continue
            self.sizes.append((offset, size))
            self.current[name] = number = len(self.sizes) - 1
            self.events.append(("write", number))
            place = instruction.in_place[i] if i < len(instruction.in_place) else -1
            if place >= 0 and operands[place] is not None:
                self.joined[number] = operands[place]
        self.end_temporary()

    def note_temporary(self, instruction, operands):
        """Notes temporary data after the reads; operands are read again, so that they still live.

        A result that is written next to it may not overlap: its write is checked with the operands
        and the temporary data alive.
        """
        size = instruction.fields.get("temporary", 0)
        if not size:
            return
        self.sizes.append((instruction.fields.get("temporary_at", 0), size))
        number = len(self.sizes) - 1
        self.events.append(("use", number))
        self.ending.append((number, [value for value in operands if value is not None]))

    def end_temporary(self):
        """Ends the temporary data of the instruction whose results are written by now."""
        for number, operands in self.ending:
            for value in operands:
                self.events.append(("read", value))
            self.events.append(("read", number))
        self.ending.clear()

    def note_stash(self, instruction):
        if instruction.name not in ("stash", "restore"):
            return
        number = instruction.fields.get("stash", 0)
        batch = self.counter + instruction.fields.get("micro_batch", 0)
        slot = number, batch % self.program.stashes[number][1]
        if instruction.name == "stash":
            self.stashed[slot] = batch
            self.held.append(("keep", number, batch))
        else:
            assert self.stashed[slot] == batch, "a slot was written again before it was fetched"
            self.held.append(("fetch", number, batch))

    def value(self, name):
        if self.program.tensors.get(name, ("",))[0] != "arena":
            return None
        return self.current[name]  # KeyError: read before it is written

    def root(self, value):
        while value in self.joined:
            value = self.joined[value]
        return value

    def arena_peak(self):
        """Returns the end of the highest live value; no two live values may overlap."""
        last = {}
        for at, (_, value) in enumerate(self.events):
            last[self.root(value)] = at
        live, peak = {}, 0
        for at, (kind, value) in enumerate(self.events):
            root, (offset, size) = self.root(value), self.sizes[value]
            if kind != "read" and size:
                for other, (begin, end) in live.items():
                    assert other == root or end <= offset or offset + size <= begin, "overlap"
                begin, end = live.get(root, (offset, offset + size))
                live[root] = min(begin, offset), max(end, offset + size)
                peak = max(peak, offset + size)
            if last[root] == at:
                live.pop(root, None)
        return peak

    def stash_peak(self):
        """Returns the bytes of all stashes, each with as many slots as are held at one time."""
        last = {(number, batch): at for at, (_, number, batch) in enumerate(self.held)}
        held, most = {}, {}
        for at, (kind, number, batch) in enumerate(self.held):
            slots = held.setdefault(number, set())
            if kind == "keep":
                slots.add(batch)
            most[number] = max(most.get(number, 0), len(slots))
            if last[number, batch] == at:
                slots.discard(batch)
        return sum(self.program.stashes[number][0] * count for number, count in most.items())


def permanent(program, ipu):
    """Returns the bytes of state, without alignment, and of constants that the IPU names."""
    named = [program.tensors[name] for name, where in program.ipu_of.items() if where in (ipu, -1)]
    states = {inside for base, _, _, inside in named if base == "state"}
    constants = {inside for base, _, _, inside in named if base == "constant"}
    return (
        sum(program.states[s.split('"')[1]]["bytes"] for s in states
            if program.states[s.split('"')[1]]["on_chip"]),
        sum(program.constants[int(number)] for number in constants),
    )  # fmt: skip


def streaming(program):
    """Returns the bytes of state in Streaming Memory."""
    return sum(state["bytes"] for state in program.states.values() if not state["on_chip"])


def replayed(text):
    """Returns the program, and for each IPU its replay."""
    program = parse(text)
    return program, [Replay(program, ipu) for ipu in range(len(program.ipus))]
