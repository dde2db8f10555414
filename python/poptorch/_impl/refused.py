"""Functions of PopTorch that this version lacks: each is refused by name, with what to do instead.

The names exist, so that programs import; calling one is a poptorch.Error.
"""

from poptorch_core import Error

INSTEAD = {
    "MultiConv": "Leave it out: values do not depend on it.",
}


def refusal(name: str, instead: str):
    """A function that raises."""

    def refused(*_arguments, **_keywords):
        raise Error(f"poptorch.{name} is not supported by this version. {instead}")

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Not supported: a poptorch.Error at every call. {instead}"
    return refused


FUNCTIONS = {name: refusal(name, instead) for name, instead in INSTEAD.items()}
