"""Emulated devices: the pool of IPUs that processes share, and the handling of device faults."""
