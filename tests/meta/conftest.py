"""Fixtures of several files."""

from cpp_projects import cpp_programs

__all__ = ["cpp_programs"]
