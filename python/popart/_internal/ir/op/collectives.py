"""Classes of ops between replicas and IPUs."""

from popart._internal.ir.op.classes import op_class

AllReduceOp = op_class("AllReduceOp")
ReplicatedAllGatherOp = op_class("ReplicatedAllGatherOp")
ReplicatedAllReduceInplaceOp = op_class("ReplicatedAllReduceInplaceOp")
ReplicatedAllReduceOp = op_class("ReplicatedAllReduceOp")
ReplicatedReduceScatterOp = op_class("ReplicatedReduceScatterOp")
