"""Fixtures that several test files use."""

from cpp_projects import cpp_programs

__all__ = ["cpp_programs"]
