"""Classes of ops at indices that are known at run time."""

from popart._internal.ir.op.classes import op_class

DynamicSliceOp = op_class("DynamicSliceOp")
DynamicUpdateInplaceOp = op_class("DynamicUpdateInplaceOp")
DynamicUpdateOp = op_class("DynamicUpdateOp")
