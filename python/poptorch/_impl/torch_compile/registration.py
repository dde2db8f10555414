"""Makes torch.compile know the backend and the wrappers, without an import of torch._dynamo.

That import takes longer than all others together.
"""

from importlib.metadata import EntryPoint
from types import ModuleType

from poptorch._impl import after_import

_ENTRY = EntryPoint(
    "poptorch", "poptorch._impl.torch_compile.backend:backend", "torch_dynamo_backends"
)
_REASON = (
    "[torch.compile] a poptorch wrapper runs on the device by itself. Call it outside of the "
    "compiled function, or leave out fullgraph=True"
)


def install(wrapper: type) -> None:
    """Adds the backend, now if torch._dynamo is imported, else at its import.

    A call of a wrapper within a compiled function is then a graph break: torch.compile does not
    look into the call, nor into the model that the call traces.

    Args:
        wrapper: The class of wrappers, whose __call__() and compile() are replaced.
    """
    after_import.call("torch._dynamo.backends.registry", _add)

    def leave_out(decorators: ModuleType) -> None:
        for name in ("__call__", "compile"):
            method = getattr(wrapper, name)
            setattr(wrapper, name, decorators.disable(method, reason=_REASON))

    after_import.call("torch._dynamo.decorators", leave_out)


def _add(registry: ModuleType) -> None:
    registry._BACKENDS.setdefault(_ENTRY.name, _ENTRY)
