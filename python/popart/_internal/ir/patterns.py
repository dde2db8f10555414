"""Patterns, which rewrite graphs in PopART. The compiler here has passes of its own."""

from typing import Any

from popart.enums import PatternsLevel


class Patterns:
    """Which patterns would run: a level, or names; kept and given back, without effect.

    `Patterns([]).enablePattern("Gelu", True)` and such are accepted.
    """

    def __init__(self, level: Any = PatternsLevel.Default) -> None:
        self._level = level
        self._enabled: dict[str, bool] = {}

    def enablePattern(self, name: str, enabled: bool) -> "Patterns":
        """Notes that a pattern would or would not run."""
        self._enabled[name] = enabled
        return self

    def isPatternEnabled(self, name: str) -> bool:
        """What was noted of a pattern; by default whether there is a level."""
        return self._enabled.get(name, self._level not in ([], PatternsLevel.NoPatterns))

    def enableRuntimeAsserts(self, on: bool) -> "Patterns":
        """Accepted."""
        return self


__all__ = ["Patterns", "PatternsLevel"]
