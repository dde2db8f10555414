"""By this path, too, programs import the class of wrappers."""

from poptorch._impl.wrapper.executor import PoplarExecutor as PoplarExecutor
