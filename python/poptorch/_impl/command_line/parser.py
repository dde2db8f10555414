"""The arguments of `python -m poptorch`."""

import argparse
import math
from collections.abc import Callable

from poptorch._impl.command_line import (
    cache_command,
    env_command,
    estimate_command,
    explain_command,
    file_command,
    report_command,
)

DESCRIPTION = """Describes the installation; explains, plans and estimates the models of a script;
inspects the executable cache and files; writes reports."""


def make() -> argparse.ArgumentParser:
    """Returns the parser. What it parses has `run`, which takes the arguments."""
    parser = argparse.ArgumentParser(prog="python -m poptorch", description=DESCRIPTION)
    names = "env|explain|plan|estimate|report|cache|file"
    topics = parser.add_subparsers(required=True, metavar=names)
    text = "print versions, the host, the variables that are set and the pool, for a bug report"
    _with_json(topics.add_parser("env", help=text, description=text), env_command.show)
    text = "run a script until it calls a wrapped model, and list the model's ops and modules"
    explain = topics.add_parser("explain", help=text, description=text)
    _with_script(explain, explain_command.explain)
    text = "run a script until it calls a wrapped model, and divide the model into stages"
    plan = topics.add_parser("plan", help=text, description=text)
    plan.add_argument("--ipus", type=int, default=2, metavar="N",
                      help="the number of IPUs, one a stage; default: 2")  # fmt: skip
    _with_script(plan, explain_command.plan)
    text = "run a script until it calls a wrapped model, and print the model's memory and speed"
    estimate = topics.add_parser("estimate", help=text, description=text)
    _with_script(estimate, estimate_command.estimate)
    _add_report(topics)
    _add_cache(topics)
    _add_file(topics)
    return parser


def _with_json(parser: argparse.ArgumentParser, run: Callable) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def _with_script(parser: argparse.ArgumentParser, run: Callable) -> None:
    _with_json(parser, run)
    parser.add_argument("--meta", action="store_true",
                        help="the script creates its tensors on device meta")  # fmt: skip
    parser.add_argument("script")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    rest.required = False  # otherwise a message without a script names it, too


def _add_report(topics) -> None:
    text = "write report.html, which shows what a model's IPUs hold and do, with its data beside it"
    report = topics.add_parser("report", help=text, description=text)
    report.add_argument("place", help="the folder of a report, or the file of an executable")
    report.add_argument("--to", default=".", metavar="FOLDER", help="default: the current folder")
    report.add_argument("--compare", metavar="PLACE", help="another report or executable")
    _with_json(report, report_command.make)


def _add_cache(topics) -> None:
    cache = topics.add_parser("cache", help="the executables that enableExecutableCaching keeps")
    actions = cache.add_subparsers(required=True, metavar="list|verify|prune")
    for name, work, text in (
        ("list", cache_command.list_entries, "list the entries, the last used first"),
        ("verify", cache_command.verify, "read every entry, and list the damaged ones"),
        ("prune", cache_command.prune, "remove entries, the least recently used first"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("folder", nargs="?", help="default: POPTORCH_CACHE_DIR")
        _with_json(action, work)
        if name == "prune":
            action.add_argument("--unused-days", type=_amount, metavar="N",
                                help="remove entries that were not used for N days")  # fmt: skip
            action.add_argument("--to-mib", type=_amount, metavar="N",
                                help="remove entries until N MiB or less are left")  # fmt: skip


def _amount(text: str) -> float:
    """Parses a number of 0 or more."""
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not amount >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return amount


def _add_file(topics) -> None:
    file = topics.add_parser("file", help="a file that save() or compileAndExport() has written")
    actions = file.add_subparsers(required=True, metavar="show|program|weights")
    for name, work, text in (
        ("show", file_command.show, "print the sections, and the tensors of the state"),
        ("program", file_command.program, "print the text of the program"),
        ("weights", file_command.weights, "write the state as a safetensors file"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("file")
        action.set_defaults(run=work)
        if name == "show":
            _with_json(action, work)
        if name == "weights":
            action.add_argument("to")
