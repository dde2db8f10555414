"""Replacements for functions of torch and Python while a model is traced, one file per subject."""
