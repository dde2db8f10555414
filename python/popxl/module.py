"""popxl.Module: a callable whose `build` makes a graph."""

from typing import Any


class Module:
    """A callable with state whose `build` makes a graph."""

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Writes the ops; subclasses override it. Raises NotImplementedError here.

        Args:
            *args: The arguments of the call.
            **kwargs: The keyword arguments of the call.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build` with the same arguments."""
        return self.build(*args, **kwargs)
