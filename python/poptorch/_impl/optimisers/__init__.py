"""Optimisers: their description for the compiler, later changes, and their state on the device."""
