"""Exports names of model wrappers that programs import by this path."""

from poptorch._impl.trace import substitutions
from poptorch._impl.wrapper.compiled_model import NO_EXECUTABLE as NO_EXECUTABLE_ERR
from poptorch._impl.wrapper.executor import PoplarExecutor

__all__ = ["NO_EXECUTABLE_ERR", "PoplarExecutor"]


class _OverwriteContextManager:
    """Replaces functions of torch and of packages while a model is traced."""

    @staticmethod
    def registerSubsitutionManager(manager_type: type[substitutions.Substitution]) -> None:
        """Registers a class of replacements; PopTorch spells the method's name so.

        Args:
            manager_type: A class with the methods replace() and restore(). Each trace creates an
                object, calls replace() at its begin and restore() at its end.
        """
        substitutions.register(manager_type)
