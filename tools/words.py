"""The texts of a source that a person reads: comments, docstrings, messages, and prose of pages."""

import ast
import io
import re
import tokenize

CPP = re.compile(r'R"\((?:.|\n)*?\)"|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])+\'|//([^\n]*)')
CODE_BLOCK = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>|^\|[-|]+\|$", re.MULTILINE)
# A literal of fewer words is a name or a pattern, not a message.
LEAST_WORDS = 3


def texts_of(suffix, text):
    """Yields (line, kind, text) of all texts; kind: "comment", "note", "docstring", "message" or
    "page".

    A note is a comment beside code; a comment has separate lines.
    """
    if suffix == ".md":
        return _of_page(text)
    return _of_python(text) if suffix in (".py", ".pyi") else _of_cpp(text)


def _of_cpp(text):
    block, begin, last = [], 0, -1
    for match in CPP.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match[1] is not None:
            if len(match[1].split()) >= LEAST_WORDS:
                yield line, "message", match[1]
        if match[2] is None:
            continue
        alone = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if alone and block and line == last + 1:
            block.append(match[2].strip())
            last = line
            continue
        if block:
            yield begin, "comment", " ".join(block)
        block, begin, last = ([match[2].strip()], line, line) if alone else ([], 0, -1)
        if not alone:
            yield line, "note", match[2].strip()
    if block:
        yield begin, "comment", " ".join(block)


def _of_python(text):
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            docstrings.add(node.body[0].value)
            yield node.body[0].lineno, "docstring", " ".join(ast.get_docstring(node).split())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docstrings and len(node.value.split()) >= LEAST_WORDS:
                yield node.lineno, "message", " ".join(node.value.split())
    yield from _comments_of_python(text)


def _comments_of_python(text):
    lines = text.splitlines()
    block, begin, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, alone = token.start[0], lines[token.start[0] - 1].lstrip().startswith("#")
        said = token.string.lstrip("#: ").strip()
        if alone and block and line == last + 1:
            block.append(said)
        else:
            if block:
                yield begin, "comment", " ".join(block)
            block, begin = ([said], line) if alone else ([], 0)
            if not alone:
                yield line, "note", said
        last = line
    if block:
        yield begin, "comment", " ".join(block)


def _of_page(text):
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    prose = CODE.sub("CODE", CODE_BLOCK.sub(blank, text))
    for paragraph in re.finditer(r"(?:[^\n]*\S[^\n]*\n?)+", prose):
        line = prose.count("\n", 0, paragraph.start()) + 1
        said = " ".join(paragraph[0].split())
        if re.search(r"[a-z]{2}", said):
            yield line, "page", said
