"""The cross entropy of scores whose classes are spread over IPUs."""

from popxl_addons.ops.cross_entropy_sharded_wr_loss.cross_entropy_sharded_wr_loss import (
    cross_entropy_sharded_wr_loss as cross_entropy_sharded_wr_loss,
)
