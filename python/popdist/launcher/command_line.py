"""poprun's command line and its configuration files."""

import configparser
import difflib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from popdist.launcher import values
from popdist.launcher.option_table import BY_KEY, TABLE, Option

_SECTION = "poprun"


class UsageError(Exception):
    """The command line is invalid. Exit status 2."""


@dataclass
class Given:
    """A parsed command line: texts by option, the values of all options, and the program."""

    texts: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, key: str) -> Any:
        try:
            return self.__dict__["values"][key]
        except KeyError:
            raise AttributeError(key) from None


def parse(words: Sequence[str]) -> Given:
    """Parses options, and the program from the first word that is neither an option nor its value.

    Options of the command line override those of --import-config. Raises UsageError.
    """
    given = Given()
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "-":
        word = words[position]
        position += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        option, times = _find(name)
        if option.parse is None:
            if equals:
                raise UsageError(f"{name} takes no value, but got {value!r}.")
            given.texts[option.key] = str(int(given.texts.get(option.key, "0")) + times)
            continue
        if not equals:
            if position == len(words):
                raise UsageError(f"{name} needs a value: {option.spelling}.")
            value = words[position]
            position += 1
        _add(given.texts, option, value)
    given.program = tuple(words[position:])
    if "import_config" in given.texts:
        _check(BY_KEY["import_config"], given.texts["import_config"], "")
        given.texts = {**read_file(given.texts["import_config"]), **given.texts}
    for option in TABLE:
        given.values[option.key] = _check(option, given.texts.get(option.key), "")
    return given


def _find(name: str) -> tuple[Option, int]:
    """Returns the option of a spelling, and how often the spelling counts a switch."""
    for option in TABLE:
        if name == f"--{option.name}":
            return option, 1
        if option.short and name == f"-{option.short}":
            return option, 1
        if option.short and option.parse is None and name == "-" + option.short * (len(name) - 1):
            return option, len(name) - 1
    raise UsageError(f"unknown option {name}. The nearest is {_nearest(name)}; see poprun --help.")


def _nearest(name: str) -> str:
    known = [f"--{option.name}" for option in TABLE]
    return difflib.get_close_matches(f"--{name.strip('-')}", known, 1, cutoff=0.0)[0]


def _add(texts: dict[str, str], option: Option, value: str) -> None:
    former = texts.get(option.key)
    texts[option.key] = f"{former} {value}" if option.adds and former else value


def _check(option: Option, text: str | None, where: str) -> Any:
    if text is None:
        return option.default
    if option.parse is None:
        return int(text)
    try:
        values.check_bytes(text)
        return option.parse(text)
    except ValueError as error:
        raise UsageError(f"{where}--{option.name} takes {error}, but got {text!r}.") from None


def read_file(path: str) -> dict[str, str]:
    """Returns the options of a configuration file, as texts. Raises UsageError.

    The file is data and is never executed.
    """
    try:
        # Names of files may be invalid UTF-8: surrogateescape preserves their bytes.
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            text = file.read()
        items = _json_items(text) if text.lstrip().startswith("{") else _ini_items(text)
    except (OSError, ValueError, configparser.Error, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--import-config {path} cannot be read: {reason}.") from None
    texts: dict[str, str] = {}
    for name, value in items.items():
        option = BY_KEY.get(name.strip().lstrip("-").replace("-", "_"))
        if option is None or not option.in_files:
            raise UsageError(f"{path}: unknown option {name!r}. The nearest is {_nearest(name)}.")
        if option.key in texts:
            raise UsageError(f"{path}: {option.name} is given twice.")
        texts[option.key] = _as_text(option, value, path)
        _check(option, texts[option.key], f"{path}: ")
    return texts


def _json_items(text: str) -> dict[str, Any]:
    items = json.loads(text, object_pairs_hook=_once_each)
    inner = items.get(_SECTION)
    return inner if isinstance(inner, dict) and len(items) == 1 else items


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return found


def _ini_items(text: str) -> dict[str, Any]:
    reader = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        reader.read_string(text)
    except configparser.MissingSectionHeaderError:
        reader.read_string(f"[{_SECTION}]\n{text}")
    if reader.sections() != [_SECTION]:
        raise ValueError(f"its sections are {reader.sections()}, but must be [{_SECTION}]")
    return dict(reader[_SECTION])


def _as_text(option: Option, value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value) if option.adds else ",".join(value)
    raise UsageError(f"{path}: {option.name} takes a text, a number, yes or no, but got {value!r}.")


def write_file(path: str, texts: dict[str, str], *, overwrite: bool) -> None:
    """Writes a file for --import-config.

    Raises:
        UsageError: The file exists, or its format cannot hold the texts.
    """
    options = [(BY_KEY[key], text) for key, text in texts.items() if BY_KEY[key].in_files]
    # Blanks around words have no meaning.
    kept = {option.name: text.strip() if option.adds else text for option, text in options}
    if path.endswith(".ini"):
        written = _as_ini(kept, path)
    else:
        written = json.dumps(kept, indent=2) + "\n"
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
    try:
        file = os.open(path, flags, 0o666)
        with open(file, "w", encoding="utf-8", errors="surrogateescape") as opened:
            opened.write(written)
    except FileExistsError:
        raise UsageError(
            f"--export-config {path}: the file exists. Add --overwrite-config yes, or choose "
            "another name."
        ) from None
    except OSError as error:
        raise UsageError(f"--export-config {path} cannot be written: {error.strerror}.") from None


def _as_ini(texts: dict[str, str], path: str) -> str:
    written = f"[{_SECTION}]\n" + "".join(f"{name} = {text}\n" for name, text in texts.items())
    try:
        found = _ini_items(written)
    except (ValueError, configparser.Error):
        found = {}
    for name, text in texts.items():
        if found.get(name) != text:
            raise UsageError(
                f"--export-config {path}: an INI file cannot hold --{name} {text!r}, which has "
                "line breaks, or blanks at its start or end. Write a .json file."
            )
    return written
