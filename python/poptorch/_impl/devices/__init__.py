"""Emulated devices: the pool of IPUs that processes share, and what a device fault leaves."""
