"""Makes torch.compile know the backend and the wrappers, without an import of torch._dynamo.

That import takes longer than all others together.
"""

from importlib.metadata import EntryPoint
from types import ModuleType

from poptorch._impl import after_import

_ENTRY = EntryPoint(
    "poptorch", "poptorch._impl.torch_compile.backend:backend", "torch_dynamo_backends"
)
_OF_WRAPPERS = (
    "[torch.compile] a poptorch wrapper runs on the device by itself. Call it outside of the "
    "compiled function, or leave out fullgraph=True"
)
_OF_OPS = (
    "[torch.compile] an operator of poptorch.op runs Python on the host. Call it outside of the "
    "compiled function, or leave out fullgraph=True"
)


def install(wrapper: type, python_op: type) -> None:
    """Adds the backend, now if torch._dynamo is imported, else at its import.

    A call of a wrapper or of an operator in Python within a compiled function is then a graph
    break: torch.compile does not look into the call, nor into the model that the call traces.

    Args:
        wrapper: The class of wrappers, whose __call__() and compile() are replaced.
        python_op: The class of operators in Python, whose __call__() is replaced.
    """
    after_import.call("torch._dynamo.backends.registry", _add)
    left_out = (wrapper, "__call__", _OF_WRAPPERS), (wrapper, "compile", _OF_WRAPPERS)

    def leave_out(decorators: ModuleType) -> None:
        for kind, name, reason in (*left_out, (python_op, "__call__", _OF_OPS)):
            setattr(kind, name, decorators.disable(getattr(kind, name), reason=reason))

    after_import.call("torch._dynamo.decorators", leave_out)


def _add(registry: ModuleType) -> None:
    registry._BACKENDS.setdefault(_ENTRY.name, _ENTRY)
