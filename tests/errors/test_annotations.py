"""The error about a refused annotation names the block, the user's line and the cure."""

import re
from pathlib import Path

import poptorch
import pytest
import refused_annotations
import refused_arguments
import refused_scopes
from refusals import LINE

REFUSED = refused_annotations.REFUSED | refused_scopes.REFUSED | refused_arguments.REFUSED


def message_of(call):
    with pytest.raises((poptorch.Error, AssertionError)) as caught:
        call()
    if getattr(caught.value, "type", "") == "poptorch_cpp_error":
        assert re.match(r"In \w+\.cpp:\d+: 'poptorch_cpp_error': ", str(caught.value))
    return getattr(caught.value, "message", str(caught.value))


def lines_in(message):
    found = re.findall(LINE, message)
    return [Path(file).read_text().splitlines()[int(number) - 1] for file, number in found]


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_block_the_line_and_the_cure(case):
    call, block, line, cure, text = REFUSED[case]
    message = message_of(call)
    assert re.search(text, message), message
    assert re.search(rf"'{block}'|^{block} |: {block} |={block}, ", message), message
    assert any(line in found for found in lines_in(message)), message
    assert cure in message


def test_there_are_as_many_as_asked_for():
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("call, text, line, cure", refused_arguments.WITHOUT_BLOCK)
def test_a_refusal_without_a_block_names_the_line_and_the_cure(call, text, line, cure):
    message = message_of(call)
    assert text in message and cure in message
    assert any(line in found for found in lines_in(message)), message
