"""Conversion of the compiled graphs to JSON with PopART's names of ops."""

import json
import re

from poptorch_core import _core

_STASHING = re.compile(r"^ *stash\(%(\S+)\) @\[stash=(\d+)\b.*? stage=(\d+)", re.M)
_RESTORING = re.compile(r" = restore\(\) @\[stash=(\d+)\b.*? stage=(\d+)")
_STAGES = re.compile(r"^execution \{.*?\bforward_stages=(\d+)", re.M)


def as_json(text: str, program: str = "") -> str:
    """Converts the text of an IR stage to {"maingraph": [op, ...], "<called graph>": [op, ...]}.

    program: the text of the compiled program. Its stashes of values that cross from a stage's
    forward to its backward run become ops of type "Stash" at the end.
    An op is {"type", "name", "inputs", "outputs", "attributes"}. Its name is the module's path and
    the kind of op. Attributes are text, also those of poptorch.Attribute. An op that
    recomputationCheckpoint marks has the type "Checkpoint".
    """
    graphs = {}
    for graph in _core.parse(text).graphs:
        name = "maingraph" if graph.name == "main" else graph.name
        graphs[name] = _listed(graph.ops)
    if stages := _STAGES.search(text):
        graphs["maingraph"] += _stashes(program, 2 * (int(stages[1]) - 1))
    return json.dumps(graphs)


def _stashes(program: str, last: int) -> list[dict]:
    """Returns an op for each value that waits for the backward run of its stage.

    last: the number of the last stage. The backward run of forward stage i is stage `last - i`.
    """
    names: dict[int, str] = {}
    stages: dict[int, set[int]] = {}
    for value, number, stage in _STASHING.findall(program):
        names.setdefault(int(number), value)
        stages.setdefault(int(number), set()).add(int(stage))
    for number, stage in _RESTORING.findall(program):
        stages.setdefault(int(number), set()).add(int(stage))
    return [
        {"type": "Stash", "name": f"Stash_{value}", "inputs": [value],
         "outputs": [f"stashed_{value}"], "attributes": {}}
        for number, value in sorted(names.items())
        if any(2 * stage < last and last - stage in stages[number] for stage in stages[number])
    ]  # fmt: skip


def _listed(ops) -> list[dict]:
    """Describes ops in order; joins the members of a MultiConv at the place of the last one."""
    members: dict[tuple, list] = {}
    for op in ops:
        if "multi_conv" in op.attrs:
            members.setdefault(_multi_conv(op), []).append(op)
    listed = []
    for op in ops:
        if "multi_conv" not in op.attrs:
            listed.append(_described(op))
        elif op.id == (together := members[_multi_conv(op)])[-1].id:
            listed.append(_joined(together))
    return listed


def _multi_conv(op) -> tuple:
    """Returns the key that the members share: a forward op or kind of gradient, and its stage."""
    return op.attrs["multi_conv"], op.popart_type.replace("Transpose", ""), op.ipu, op.stage


def _joined(members: list) -> dict:
    parts = [_described(op) for op in members]
    labels = [json.loads(op.labels or "{}") for op in members]
    kind = f"Multi{_multi_conv(members[0])[1]}"
    scope = members[0].scope
    return {
        "type": kind,
        "name": f"{scope}/{kind}" if scope else kind,
        "inputs": [name for part in parts for name in part["inputs"]],
        "outputs": [name for part in parts for name in part["outputs"]],
        "attributes": {key: _common([label.get(key, "") for label in labels]) for key in labels[0]},
    }


def _common(values: list[str]) -> str:
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def _described(op) -> dict:
    kind = "Checkpoint" if "checkpoint" in op.attrs else op.popart_type or op.name
    return {
        "type": kind,
        "name": f"{op.scope}/{kind}" if op.scope else kind,
        "inputs": [value.name if value is not None else "" for value in op.operands],
        "outputs": [value.name for value in op.results],
        "attributes": {**json.loads(op.labels or "{}"), **op.attrs},
    }
