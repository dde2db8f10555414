"""Functions of PopTorch that this version lacks: each is refused by name, with what to do instead.

The names exist, so that programs import; calling one is a poptorch.Error.
"""

from poptorch_core import Error

INSTEAD = {
    "CPU": "Split the model there and call the function between the two halves.",
    "MultiConv": "Leave it out: values do not depend on it.",
    "Attribute": "Leave it out: values do not depend on it.",
    "ctc_beam_search_decoder": "Decode on the host what the model returns.",
    "custom_op": "Write the operator in terms of torch's.",
    "fps": "Compute it on the host and pass the result to the model.",
    "ipu_print_tensor": "Return the tensor, or name it in Options.anchorTensor.",
    "load": "Save the model's state_dict() and wrap the model again.",
    "nearest": "Compute it on the host and pass the result to the model.",
}
METHODS = {
    "compileAndExport": "Save the model's state_dict() and compile again.",
    "save": "Save the model's state_dict() and compile again.",
    "loadExecutable": "Call the wrapper, or its compile().",
}


def refusal(name: str, instead: str):
    """A function that raises."""

    def refused(*_arguments, **_keywords):
        raise Error(f"poptorch.{name} is not supported by this version. {instead}")

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Not supported: a poptorch.Error at every call. {instead}"
    return refused


FUNCTIONS = {name: refusal(name, instead) for name, instead in INSTEAD.items()}


def method(name: str):
    """A method of the wrapper that raises."""
    return refusal(f"PoplarExecutor.{name}", METHODS[name])
