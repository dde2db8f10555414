"""Parsers of poprun's option values. Each raises ValueError that names the expected value."""

import ipaddress
import os
import re
import shlex
from collections.abc import Callable

_YES, _NO = ("yes", "1", "on", "true"), ("no", "0", "off", "false")
_MOST_HOSTS = 65536


def check_bytes(given: str) -> None:
    """Raises ValueError for a text that arguments and variables cannot hold, but JSON can."""
    try:
        if b"\0" not in os.fsencode(given):
            return
    except UnicodeEncodeError:
        pass
    raise ValueError("a text without NUL and unpaired surrogates")


def count(least: int) -> Callable[[str], int]:
    """Returns a parser of whole numbers."""

    def parse(given: str) -> int:
        if not (given.isascii() and given.isdecimal()) or len(given) > 9 or int(given) < least:
            raise ValueError(f"a whole number of {least} or more")
        return int(given)

    return parse


def flag(given: str) -> bool:
    """Parses yes or no, in any of their spellings."""
    if given.lower() not in _YES + _NO:
        raise ValueError("yes or no (or 1, 0, on, off, true, false)")
    return given.lower() in _YES


def text(given: str) -> str:
    """Parses any text that is not empty."""
    if not given:
        raise ValueError("a text")
    return given


def words(given: str) -> tuple[str, ...]:
    """Splits a text into words as a shell does."""
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise ValueError(f"words as in a shell ({error})") from None


def one_of(*names: str) -> Callable[[str], str]:
    """Returns a parser of a choice of words."""

    def parse(given: str) -> str:
        if given not in names:
            raise ValueError(" or ".join(names))
        return given

    return parse


def subnet(given: str) -> str:
    """Parses a network of the form a.b.c.d/n."""
    try:
        return str(ipaddress.ip_network(given, strict=False))
    except ValueError:
        raise ValueError("a network such as 10.1.3.0/24") from None


def hosts(given: str) -> tuple[str, ...]:
    """Parses names between commas; brackets hold numbers and ranges: h[0-2,4], h[08-11]."""
    found: list[str] = []
    if set("[]") & set(re.sub(r"\[[^\[\]]*\]", "", given)):
        raise ValueError("names of hosts, with closed brackets")
    for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", given):
        found += _expanded(item.strip())
        if len(found) > _MOST_HOSTS:
            break
    legal = re.compile(r"(\w[\w.-]*@)?\w([\w.:-]*\w)?", re.ASCII)
    if not 0 < len(found) <= _MOST_HOSTS or not all(legal.fullmatch(name) for name in found):
        raise ValueError("names of hosts as h0,h1 or h[0-2,4]")
    return tuple(found)


def _expanded(item: str) -> list[str]:
    brackets = re.fullmatch(r"([^\[\]]*)\[([^\[\]]+)\](.*)", item)
    if brackets is None:
        return [item]
    before, inside, behind = brackets.groups()
    ends = _expanded(behind)
    found: list[str] = []
    for part in inside.split(","):
        numbers = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if numbers is None:
            return [item]  # hosts() refuses its brackets
        first, last = numbers[1], numbers[2] or numbers[1]
        for number in range(int(first), int(last) + 1):
            found += [f"{before}{number:0{len(first)}}{end}" for end in ends]
    return found
