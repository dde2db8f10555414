"""Modules, transforms and helpers on top of popxl."""
