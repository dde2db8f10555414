"""There is no TensorFlow here: importing this says so."""

from poptorch_core.errors import DependencyError

raise DependencyError(
    "[popdist] popdist.tensorflow is not offered: programs are PopTorch's or PopXL's. Use "
    "popdist.poptorch, or popdist.popart."
)
