"""Device faults, after which the device's state is lost and the host has its latest copies."""

from poptorch._logging import logger_of

logger = logger_of(__name__)


def is_lost(compiled) -> bool:
    """Returns whether a fault has lost the device's state; the first such call logs a warning."""
    if compiled is None or not compiled.executable.has_failed():
        return False
    if not compiled.device.told_of_failure:
        compiled.device.told_of_failure = True
        logger.warning(
            f"The device of {compiled.name} has failed: its weights and optimiser state are lost. "
            "The host has their latest copies, which may be from different steps: load a "
            "checkpoint to continue from a complete step"
        )
    return True
