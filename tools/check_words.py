"""Checks the English that people read: plain sentences, the field's terms, no mannerisms.

`tools/check_words.py [path ...]` prints every place with the rule that it breaks. It reads
comments, docstrings, literals of three words or more, and the prose of pages. Texts that may stand
are in words_exceptions.txt, each with its reason.
"""

import re
import sys
from pathlib import Path

import words

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("poptorch_cpp", "python", "tests", "tools", "benchmarks", "examples", "docs", "README.md",
          "SECURITY.md", "CHANGELOG.md")  # fmt: skip
EXCEPTIONS = Path(__file__).with_name("words_exceptions.txt")
# Patterns that a text must not contain, with what to write instead. Case does not matter.
WORDS = (
    (r"(?<!there )\b(is|are|was|were) no (?!longer\b|more than\b)", "'is not a', 'without'"),
    (r"\bbehind (?!a |the (scenes|lock|mutex))", "'after', 'below' or 'beside'"),
    (r"\b(goes|go|went|going) on\b", "'continues'"),
    (r"\b(is|are|was|be|being) told\b|\btells? (of|about)\b", "'is notified', 'reports'"),
    (r"\b(anew|lest|likewise|by and by|as ever|in vain|shall)\b",
     "'again', 'so that ... not', 'also', 'without result'"),
    (r"\bof (its|their|his|your) own\b|\bof (ours|the user's|the model's own)\b",
     "'separate', 'private', 'own' before the noun"),
    (r"\b(whoever|whom|whosoever)\b", "the noun that it stands for"),
    (r"\b(a|the) (\w+ )?at hand\b", "'current'"),
    (r"\bImplements [\w/]+\.hpp\b", "nothing: the file's name says it"),
)  # fmt: skip
# Openings of comments and docstrings without a subject.
OPENINGS = re.compile(r"(What|Who|Whoever|Of|By|As|That|Those|Whom|With|Likewise|Such) ")
# A paragraph of a page may begin with "By default," or "With two IPUs, ...".
PAGE_OPENINGS = re.compile(r"(?:[-*#|>]+ |\d+\. )*(What|Who|Whoever|Of|That|Those|Whom|Likewise) ")


# Files whose literals are the patterns of this check, or cases of it.
OWN_FILES = ("tools/check_words.py", "tests/meta/test_tools.py")


def exceptions():
    """Returns the texts that may stand, without their reasons."""
    lines = EXCEPTIONS.read_text().splitlines()
    return [line.partition(" | ")[0] for line in lines if line and not line.startswith("#")]


def problems(suffix, text, allowed=()):
    """Yields (line, what is wrong) of a file's texts."""
    for line, kind, said in words.texts_of(suffix, text):
        for exception in allowed:
            said = said.replace(exception, "")
        for pattern, instead in WORDS:
            if found := re.search(pattern, said, re.IGNORECASE):
                yield line, f"'{found[0].strip()}': write {instead}"
        opening = {"comment": OPENINGS, "docstring": OPENINGS, "page": PAGE_OPENINGS}.get(kind)
        if opening and (found := opening.match(said)):
            yield line, f"a {kind} begins with '{found[1]}': begin with its subject, or a verb"


def main(paths=()):
    places = [Path(path) for path in paths] or [ROOT / place for place in PLACES]
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("*")))
        if file.suffix in (".cpp", ".hpp", ".py", ".md") and "egg-info" not in str(file)
        if not str(file.resolve()).endswith(OWN_FILES)
    ]
    allowed = exceptions()
    found = [
        f"{file}:{line}: {problem}"
        for file in files
        for line, problem in problems(file.suffix, file.read_text(), allowed)
    ]
    print("\n".join(found) or f"words: {len(files)} files are in plain English")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
