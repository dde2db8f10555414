"""The stubs of the native modules list the names and signatures that the modules have."""

import pytest
from load_tool import ROOT, load_tool

TOOL = load_tool("write_stubs")


def committed(module):
    return (ROOT / f"python/poptorch_core/{module}.pyi").read_text()


@pytest.mark.parametrize("module", TOOL.MODULES)
def test_stub_is_that_of_the_module(module):
    text = committed(module)
    assert TOOL.stub(module, text) == text, "run make stubs"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("def op_names() -> list[str]: ...\n", ""),
        ("def log_level() ->", "def log_lever() ->"),
        ("def log_level() -> int: ...\n", "def log_level() -> int: ...\ndef logs() -> int: ...\n"),
        ('environment_text(name: str, otherwise: str = "")', "environment_text(name: str)"),
        ("read_state(self, name: str)", "read_state(self, slot: str)"),
        ("def log(level: int, text: str, /)", "def log(level: float, text: str, /)"),
        ("def log(level: int, text: str, /)", "def log(level: int, text: str)"),
        ("def states(self) -> list[str]", "def states(self) -> list[int]"),
        ("def clone(self) -> Module: ...\n", "def clone(self) -> Module | str: ...\n"),
    ],
)
def test_a_stub_of_another_module_is_noticed(text, other):
    stub = committed("_core")
    assert stub.count(text) == 1
    changed = stub.replace(text, other)
    assert TOOL.stub("_core", changed) != changed


def test_what_a_module_leaves_open_is_kept():
    text = committed("_core")
    for old, new in (
        ("level: int, text: str, /", "severity: int, text: str, /"),
        ("def check_environment() -> None: ...", 'def check_environment() -> None:\n    """So."""'),
    ):
        assert old in text
        text = text.replace(old, new)
    kept = TOOL.stub("_core", text)
    assert "severity: int" in kept and '"""So."""' in kept
