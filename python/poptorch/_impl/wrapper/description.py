"""The line about a wrapper, and its module's tree, that repr() returns."""

from poptorch._impl.placement import blocks
from poptorch._impl.placement.strategies import strategy_in
from poptorch._impl.wrapper.state import WrapperState


def of_wrapper(state: WrapperState) -> str:
    """Returns how a wrapper's model is executed and whether it is compiled, then the tree."""
    made, compiled = state.wrapped, state.compiled
    tree = repr(made.model) if made.module is None else blocks.module_repr(made.module)
    strategy = type(strategy_in(made.options)).__name__
    if compiled is None:
        compilation = "not compiled"
    else:
        ipus = compiled.executable.ipus() * made.options.replication_factor
        compilation = f"compiled for {ipus} IPU{'s' if ipus > 1 else ''}"
    return f"{made.name}: {strategy}, {compilation}\n{tree}"
