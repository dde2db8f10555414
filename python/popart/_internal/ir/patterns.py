"""Patterns, which rewrite graphs in PopART. The compiler here has other passes."""

from typing import Any

from popart.enums import PatternsLevel


class Patterns:
    """A choice of patterns, by a level or by names. It is kept, and has no effect.

    Calls such as `Patterns([]).enablePattern("Gelu", True)` are accepted.

    Args:
        level: A level of PopART, or the names of the enabled patterns.
    """

    def __init__(self, level: Any = PatternsLevel.Default) -> None:
        self._level = level
        self._enabled: dict[str, bool] = {}

    def enablePattern(self, name: str, enabled: bool) -> "Patterns":
        """Records whether a pattern is enabled.

        Args:
            name: The name of the pattern.
            enabled: Whether it is enabled.
        """
        self._enabled[name] = enabled
        return self

    def isPatternEnabled(self, name: str) -> bool:
        """Returns the recorded value of a pattern; by default whether there is a level.

        Args:
            name: The name of the pattern.
        """
        return self._enabled.get(name, self._level not in ([], PatternsLevel.NoPatterns))

    def enableRuntimeAsserts(self, on: bool) -> "Patterns":
        """Accepted without effect.

        Args:
            on: Accepted for compatibility with PopART, without effect.
        """
        return self


__all__ = ["Patterns", "PatternsLevel"]
