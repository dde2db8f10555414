"""By this path, too, programs import the class of wrappers."""

from poptorch._impl.executor import PoplarExecutor as PoplarExecutor
