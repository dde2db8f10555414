"""The cross entropy of scores whose classes are spread over replicas."""

from popxl_addons.ops.cross_entropy_sharded_loss.cross_entropy_sharded_loss import (
    cross_entropy_sharded_loss as cross_entropy_sharded_loss,
)
