"""Estimates models, inspects the executable cache and files, and writes reports."""

import argparse
import sys

from poptorch._impl.command_line import (
    cache_command,
    estimate_command,
    file_command,
    report_command,
)
from poptorch_core import Error


def main(arguments: list[str] | None = None) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: The command line without the program's name. None: that of the process.

    Returns:
        The exit status: 0 for success, 1 if a file is damaged, 2 if nothing could be done.
    """
    parser = argparse.ArgumentParser(prog="python -m poptorch", description=__doc__)
    topics = parser.add_subparsers(required=True, metavar="cache|estimate|file|report")

    cache = topics.add_parser("cache", help="the executables that enableExecutableCaching keeps")
    actions = cache.add_subparsers(required=True, metavar="list|verify|prune")
    for name, work, text in (
        (
            "list",
            cache_command.list_entries,
            "list the entries, the most recently used first",
        ),
        ("verify", cache_command.verify, "read every entry, and list the damaged ones"),
        ("prune", cache_command.prune, "remove entries, the least recently used first"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("folder", nargs="?", help="default: POPTORCH_CACHE_DIR")
        action.set_defaults(run=work)
        if name == "prune":
            action.add_argument("--unused-days", type=float, metavar="N",
                                help="remove entries that were not used for N days")  # fmt: skip
            action.add_argument("--to-mib", type=float, metavar="N",
                                help="remove entries until N MiB or less are left")  # fmt: skip

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
        if name == "weights":
            action.add_argument("to")

    text = "write report.html, which shows what a model's IPUs hold and do, with its data beside it"
    report = topics.add_parser("report", help=text, description=text)
    report.add_argument("place", help="the folder of a report, or the file of an executable")
    report.add_argument("--to", default=".", metavar="FOLDER", help="default: the current folder")
    report.add_argument("--compare", metavar="PLACE", help="another report or executable")
    report.set_defaults(run=report_command.make)

    text = "run a script until it calls a wrapped model, and print the model's memory and speed"
    estimate = topics.add_parser("estimate", help=text, description=text)
    estimate.add_argument("--json", action="store_true", help="print all figures as JSON")
    estimate.add_argument("--meta", action="store_true",
                          help="the script creates its tensors on device meta")  # fmt: skip
    estimate.add_argument("script")
    rest = estimate.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    rest.required = False  # otherwise a message without a script names it, too
    estimate.set_defaults(run=estimate_command.estimate)

    given = parser.parse_args(arguments)
    try:
        return given.run(given)
    except Error as error:
        print(f"error: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
