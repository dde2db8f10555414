"""popxl.Module: a callable whose `build` makes a graph."""

from typing import Any


class Module:
    """A class with state of its own around the function that builds a graph."""

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Writes the ops; to be overridden. NotImplementedError otherwise."""
        raise NotImplementedError(f"{type(self).__name__} must define build().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`build` on the same arguments."""
        return self.build(*args, **kwargs)
