"""Every tag of a message stands in tools/error_tags.py, with a test that expects it."""

import ast
import re
from pathlib import Path

import pytest
from load_tool import ROOT, load_tool

TAG = re.compile(r"\[([a-z][A-Za-z_ .-]*)\] ")
table = load_tool("error_tags")
TESTS = ROOT / "tests"


def python_literals(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield "".join(map(str, parts))


def cpp_literals(path):
    text = re.sub(r'"\s*\n\s*"', "", path.read_text())  # adjacent literals are one
    yield from re.findall(r'"((?:\\.|[^"\\\n])*)"', text)


def messages():
    """Tag → texts of all messages in the sources that begin with it."""
    found = {}
    for folder, suffixes, literals in (
        ("python", {".py"}, python_literals),
        ("poptorch_cpp", {".cpp", ".hpp"}, cpp_literals),
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                for text in literals(path):
                    if tag := TAG.match(text):
                        found.setdefault(tag[1], []).append(text[tag.end() :])
    return found


MESSAGES = messages()
NOT_MESSAGES = {"n"}  # shapes in docstrings


def test_every_tag_has_a_row_and_every_row_a_message():
    rows = [tag.name for tag in table.TAGS]
    known = {*rows, *table.INTERNAL, *table.FUNCTIONS}
    assert rows == sorted(rows)
    assert MESSAGES.keys() - NOT_MESSAGES - known == set()
    written_by_code = {"inferenceModel", "trainingModel"}  # the function's name is put in
    assert known - MESSAGES.keys() - written_by_code == set()


def expected_texts(path: Path):
    """The words of a test file, its literals joined, without what escapes them in patterns."""
    text = re.sub(r'"\s*\n\s*[rf]*"', "", path.read_text())
    return " ".join(plain_words(text.replace("\\", "")))


def plain_words(text):
    return [word.strip(",.:;()\"'") for word in text.split()]


def phrases(texts):
    """Runs of three words of messages."""
    for text in texts:
        for part in re.split(r"\{\}|'", text):
            words = plain_words(part)
            yield from (" ".join(words[i : i + 3]) for i in range(len(words) - 2))


@pytest.mark.parametrize("tag", table.TAGS, ids=lambda tag: tag.name)
def test_the_test_of_a_tag_expects_such_messages(tag):
    text = expected_texts(TESTS / tag.test)
    expected = f"[{tag.name}]" in text or any(p in text for p in phrases(MESSAGES[tag.name]))
    assert expected, f"{tag.test} expects no message of [{tag.name}]"
    assert tag.cause.endswith(".")
    assert not tag.cause.startswith("[")
