"""Refused annotations: each message names the block, the user's line and the cure."""

import re

import poptorch
import pytest
from refused_annotations import LINE, REFUSED, SOURCE, WITHOUT_BLOCK


def message_of(call):
    with pytest.raises((poptorch.Error, AssertionError)) as caught:
        call()
    return getattr(caught.value, "message", str(caught.value))


def lines_in(message):
    return [SOURCE[int(number) - 1] for number in re.findall(LINE, message)]


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_block_the_line_and_the_cure(case):
    call, block, line, cure, text = REFUSED[case]
    message = message_of(call)
    assert re.search(text, message), message
    assert re.search(rf"'{block}'|^{block} |: {block} ", message), message
    assert any(line in found for found in lines_in(message)), message
    assert cure in message


def test_there_are_as_many_as_asked_for():
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("call, text, line, cure", WITHOUT_BLOCK)
def test_a_refusal_without_a_block_names_the_line_and_the_cure(call, text, line, cure):
    message = message_of(call)
    assert text in message and cure in message
    assert any(line in found for found in lines_in(message)), message
