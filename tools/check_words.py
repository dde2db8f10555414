"""Checks the English of comments in C++: plain sentences, the field's terms, no mannerisms.

`tools/check_words.py [path ...]` prints every place with the rule that it breaks; without a path it
checks all of poptorch_cpp. A comment is a run of lines that begin with //, or follows code on its
line.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "poptorch_cpp"
# What a comment must not contain, with what to write instead. The case of letters does not matter.
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
# What a comment on lines of its own must not begin with: such a sentence lacks its subject.
OPENINGS = re.compile(r"(What|Who|Whoever|Of|By|As|That|Those|Whom|With|Likewise|Such) ")

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|R"\((?:.|\n)*?\)"|//([^\n]*)')


def comments(text):
    """(number of the first line, text, whether it is on lines of its own), block by block."""
    block, begin, last = [], 0, -1
    for match in COMMENT.finditer(text):
        if match[1] is None:
            continue
        line = text.count("\n", 0, match.start()) + 1
        alone = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if alone and block and line == last + 1:
            block.append(match[1].strip())
            last = line
            continue
        if block:
            yield begin, " ".join(block), True
        block, begin, last = ([match[1].strip()], line, line) if alone else ([], 0, -1)
        if not alone:
            yield line, match[1].strip(), False
    if block:
        yield begin, " ".join(block), True


def problems(text):
    """(line, what is wrong) of a file's comments."""
    for line, comment, alone in comments(text):
        for pattern, instead in WORDS:
            if found := re.search(pattern, comment, re.IGNORECASE):
                yield line, f"'{found[0].strip()}': write {instead}"
        if alone and (found := OPENINGS.match(comment)):
            yield line, f"a comment begins with '{found[1]}': begin with its subject, or a verb"


def main(paths=()):
    paths = [Path(path) for path in paths] or [ROOT]
    files = [
        file
        for path in paths
        for file in ([path] if path.is_file() else sorted(path.rglob("*")))
        if file.suffix in (".cpp", ".hpp")
    ]
    found = [
        f"{file}:{line}: {problem}"
        for file in files
        for line, problem in problems(file.read_text())
    ]
    print("\n".join(found) or f"words: {len(files)} files have plain comments")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
