"""TensorFlow is not supported: importing this module raises DependencyError."""

from poptorch_core.errors import DependencyError

raise DependencyError(
    "[popdist] popdist.tensorflow is not offered: TensorFlow is not supported. Use "
    "popdist.poptorch or popdist.popart."
)
