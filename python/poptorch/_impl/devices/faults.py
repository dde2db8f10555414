"""What a fault leaves: nothing on the device, and on the host what was copied last."""

from poptorch._logging import logger_of

logger = logger_of(__name__)


def is_lost(compiled) -> bool:
    """Whether what the device held is lost. Whoever asks first causes a warning."""
    if compiled is None or not compiled.executable.has_failed():
        return False
    if not compiled.device.told_of_failure:
        compiled.device.told_of_failure = True
        logger.warning(
            f"The device of {compiled.name} has failed: what it held is lost. The host "
            "has weights and optimiser state as they were last copied, perhaps of two steps: load "
            "a checkpoint to go on from a whole step"
        )
    return True
