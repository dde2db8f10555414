"""Exports the class of model wrappers, which programs also import by this path."""

from poptorch._impl.wrapper.executor import PoplarExecutor as PoplarExecutor
