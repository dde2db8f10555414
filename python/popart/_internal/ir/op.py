"""Classes of ops by their types: `op.AddOp` is the class of ops of type "Add"."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popxl.graph import OpRecord


class Op:
    """A view of an op."""

    def __init__(self, record: "OpRecord") -> None:
        self._record = record

    @property
    def id(self) -> int:
        """Counts the ops of the Ir from 100."""
        return self._record.id

    def opType(self) -> str:
        """The type, e.g. "Add"."""
        return self._record.op_type

    def getInputIds(self) -> list[str]:
        """Ids of the tensors that go in, without those that are not connected."""
        return [t.id for t in self._record.inputs if t is not None]

    def getOutputIds(self) -> list[str]:
        """Ids of the tensors that come out."""
        return [t.id for t in self._record.outputs]

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._record.op_type}.{self._record.id}]"


_classes: dict[str, type] = {}


def __getattr__(name: str) -> Any:
    if not name.endswith("Op") or not name[0].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _classes:
        _classes[name] = type(name, (Op,), {"__doc__": f"Ops of type {name[:-2]}."})
    return _classes[name]
