"""Classes of ops that move data to and from the host and remote buffers."""

from popart._internal.ir.op.classes import op_class

HostLoadOp = op_class("HostLoadOp")
HostStoreOp = op_class("HostStoreOp")
MultiExchangeOp = op_class("MultiExchangeOp")
RemoteCodeLoadOp = op_class("RemoteCodeLoadOp")
RemoteLoadInplaceOp = op_class("RemoteLoadInplaceOp")
RemoteLoadOp = op_class("RemoteLoadOp")
RemoteStoreOp = op_class("RemoteStoreOp")
