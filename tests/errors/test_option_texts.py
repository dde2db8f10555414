"""Option texts of any content are accepted or refused with their line, and never executed.

tests/fuzz/fuzz_options.py fuzzes them; here its corpus and mutants of it run.
"""

import importlib.util
from pathlib import Path

import poptorch
import pytest

FUZZER = Path(__file__).parent.parent / "fuzz" / "fuzz_options.py"


@pytest.fixture(scope="module")
def fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_options", FUZZER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_corpus_is_taken_or_refused(fuzzer):
    taken = [fuzzer.apply(data) for data in fuzzer.seeds(fuzzer.CORPUS)]
    assert 10 < sum(taken) < len(taken)


@pytest.mark.shared
def test_mutants_of_the_corpus_are_taken_or_refused(fuzzer):
    taken, refused = fuzzer.fuzz_at_random(fuzzer.CORPUS, 3000, 0)
    assert taken > 100 and refused > 100


def test_the_fuzzer_sees_what_a_text_executes(fuzzer, monkeypatch):
    fuzzer.apply(b"deviceIterations(1)\n")
    monkeypatch.setattr(
        "poptorch._impl.options.parsing.apply_line", lambda _draft, text, _owner: exec(text)
    )
    with pytest.raises(SystemError, match="the text made the interpreter do exec"):
        fuzzer.apply(b"pass\n")


def load(tmp_path, data):
    file = tmp_path / "poptorch.conf"
    file.write_bytes(data)
    return poptorch.Options().loadFromFile(str(file))


@pytest.mark.parametrize(
    "line, reason",
    [
        (b'modelName("\xff")', "it is not UTF-8"),
        (b'modelName("\0")', "null bytes"),
        (b"deviceIterations(" + b"-" * 20000 + b"1)", "nested too deep"),
        (b"deviceIterations(" + b"(" * 1000, "too many nested parentheses"),
        (b"deviceIterations(" + b"9" * 100 + b")", "an integer is beyond 64 bits"),
        (b"deviceIterations(" + b"9" * 5000 + b")", "4300 digits|beyond 64 bits|nested too deep"),
        (b"deviceIterations()", "missing a required argument: 'device_iterations'"),
        (b"deviceIterations(1, 2)", "too many positional arguments"),
        (b"deviceIterations(wibble=1)", "missing a required argument|unexpected keyword"),
        (b"setAvailableMemoryProportion({[]: 1})", "a key of a dict is a list or a dict"),
    ],
)
def test_lines_that_are_no_call_are_refused_by_number(tmp_path, line, reason):
    with pytest.raises(poptorch.ConfigFileError, match="SyntaxError at line 2 of") as caught:
        load(tmp_path, b"# \xff in a comment\n" + line + b"\n")
    assert any(one in str(caught.value) for one in reason.split("|")), caught.value
    str(caught.value).encode()


def test_what_a_setter_refuses_is_told_with_the_line(tmp_path):
    reason = "line 2 of .*poptorch.conf: .*expected a positive integer but got 0"
    with pytest.raises(poptorch.ConfigFileError, match=reason):
        load(tmp_path, b"replicationFactor(1)\ndeviceIterations(0)\n")


@pytest.mark.parametrize(
    "text", ["[1]", "7", "[" * 100000, '{"wibble": 1}', '{"deviceIterations": [1, 2]}', "{"]
)
def test_json_that_is_no_object_of_options_is_refused(text):
    with pytest.raises(poptorch.ConfigFileError):
        poptorch.Options().from_json(text)
