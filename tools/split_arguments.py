"""An extension of griffe: entries of several arguments become one entry for each.

A docstring may describe arguments together (`lr, momentum: As in torch.`). The reference then shows
each one with its type and default.
"""

import re

import griffe

ENTRY = re.compile(
    r"^( {4})((?:\*{0,2}\w+, )+\*{0,2}\w+): (.*(?:\n {8,}.*)*)$",
    re.MULTILINE,
)


def split(text):
    """Returns a docstring's text with an entry for each argument."""
    return ENTRY.sub(
        lambda found: "\n".join(f"{found[1]}{name}: {found[3]}" for name in found[2].split(", ")),
        text,
    )


class SplitArguments(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj, **_):
        """Splits the entries of an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = split(obj.docstring.value)
