"""The compiled graphs as JSON, with PopART's names of ops, as scripts expect them."""

import json
import re

from poptorch_core import _core

_STASHING = re.compile(r"^ *stash\(%(\S+)\) @\[stash=(\d+)\b", re.M)


def as_json(text: str, program: str = "") -> str:
    """From the text of an IR form: {"maingraph": [op, ...], "<called graph>": [op, ...]}.

    program: the text of the program that was made of it, whose stashes are ops of type "Stash"
    behind the others.
    An op is {"type", "name", "inputs", "outputs", "attributes"}; its name is the module's path and
    the kind of op, attributes are text, those of poptorch.Attribute too. What
    recomputationCheckpoint marks is a "Checkpoint".
    """
    graphs = {}
    for graph in _core.parse(text).graphs:
        name = "maingraph" if graph.name == "main" else graph.name
        graphs[name] = [_described(op) for op in graph.ops]
    graphs["maingraph"] += _stashes(program)
    return json.dumps(graphs)


def _stashes(program: str) -> list[dict]:
    """Each of the program's, however often something is put into it."""
    values = {number: value for value, number in reversed(_STASHING.findall(program))}
    return [
        {"type": "Stash", "name": f"Stash_{value}", "inputs": [value],
         "outputs": [f"stashed_{value}"], "attributes": {}}
        for _, value in sorted(values.items())
    ]  # fmt: skip


def _described(op) -> dict:
    kind = "Checkpoint" if "checkpoint" in op.attrs else op.popart_type or op.name
    return {
        "type": kind,
        "name": f"{op.scope}/{kind}" if op.scope else kind,
        "inputs": [value.name if value is not None else "" for value in op.operands],
        "outputs": [value.name for value in op.results],
        "attributes": {**json.loads(op.labels or "{}"), **op.attrs},
    }
