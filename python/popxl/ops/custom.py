"""Ops of C++ libraries that the program has loaded: see docs/custom-ops.md."""

from collections.abc import Mapping, Sequence

from poptorch_core import _core
from poptorch_core.custom_attributes import Value, checked
from popxl.errors import Error, popart_exception
from popxl.ops.build import OpBuild
from popxl.tensor import Tensor


def custom_op(
    inputs: Sequence[Tensor],
    name: str,
    domain: str,
    domain_version: int = 1,
    attributes: "Mapping[str, Value] | None" = None,
) -> "tuple[Tensor, ...]":
    """Returns the outputs of the op that a loaded library registered.

    Args:
        inputs: The inputs.
        name: The registered name.
        domain: The registered domain.
        domain_version: The registered version.
        attributes: Floats (of 32 bits), ints and strings, alone or in lists.

    Raises:
        ValueError: An attribute has another type.
        popart_exception: The op is not registered, or takes other inputs or attributes.
    """
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"custom_op takes a list or tuple of tensors but got {inputs!r}.")
    kept = checked(attributes or {})
    try:
        text = _core.custom_attributes(kept)
    except Error as error:  # a float that is too large
        raise popart_exception(error.message, error.type) from None
    op = OpBuild(name, *inputs)
    made = op.emit_custom((domain, name, domain_version), text, inputs)
    outputs = tuple(op.output(value, name.lower()) for value in made.results)
    op.done()
    return outputs


__all__ = ["custom_op"]
