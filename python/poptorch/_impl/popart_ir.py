"""The compiled graphs as JSON, with PopART's names of ops, as scripts expect them."""

import json

from poptorch_core import _core


def as_json(text: str) -> str:
    """From the text of an IR form: {"maingraph": [op, ...], "<called graph>": [op, ...]}.

    An op is {"type", "name", "inputs", "outputs", "attributes"}; its name is the module's path and
    the kind of op, attributes are text.
    """
    graphs = {}
    for graph in _core.parse(text).graphs:
        name = "maingraph" if graph.name == "main" else graph.name
        graphs[name] = [_described(op) for op in graph.ops]
    return json.dumps(graphs)


def _described(op) -> dict:
    kind = op.popart_type or op.name
    return {
        "type": kind,
        "name": f"{op.scope}/{kind}" if op.scope else kind,
        "inputs": [value.name if value is not None else "" for value in op.operands],
        "outputs": [value.name for value in op.results],
        "attributes": op.attrs,
    }
