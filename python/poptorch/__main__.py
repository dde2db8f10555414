"""python -m poptorch: the cache of executables, files of executables, and reports."""

import argparse
import sys

from poptorch._impl.command_line import cache_command, file_command, report_command
from poptorch_core import Error


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0, 1 where a file is damaged, 2 where nothing could be done."""
    parser = argparse.ArgumentParser(prog="python -m poptorch", description=__doc__)
    topics = parser.add_subparsers(required=True, metavar="cache|file|report")

    cache = topics.add_parser("cache", help="the executables that enableExecutableCaching keeps")
    actions = cache.add_subparsers(required=True, metavar="list|verify|prune")
    for name, work, text in (
        ("list", cache_command.list_entries, "a line for each entry, last used first"),
        ("verify", cache_command.verify, "reads every entry; says which are damaged"),
        ("prune", cache_command.prune, "removes entries, the least recently used first"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("folder", nargs="?", help="default: POPTORCH_CACHE_DIR")
        action.set_defaults(run=work)
        if name == "prune":
            action.add_argument("--unused-days", type=float, metavar="N",
                                help="those that were not used for N days")  # fmt: skip
            action.add_argument("--to-mib", type=float, metavar="N",
                                help="until the rest takes no more than N MiB")  # fmt: skip

    file = topics.add_parser("file", help="what save() and compileAndExport() write")
    actions = file.add_subparsers(required=True, metavar="show|program|weights")
    for name, work, text in (
        ("show", file_command.show, "sections, and the tensors of the state"),
        ("program", file_command.program, "the program's text"),
        ("weights", file_command.weights, "writes the state as a file of safetensors"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("file")
        action.set_defaults(run=work)
        if name == "weights":
            action.add_argument("to")

    text = "writes what a model's IPUs hold and do as report.html, with its data beside it"
    report = topics.add_parser("report", help=text, description=text)
    report.add_argument("place", help="folder of a report, or file of an executable")
    report.add_argument("--to", default=".", metavar="FOLDER", help="default: the current one")
    report.add_argument("--compare", metavar="PLACE", help="another report or executable")
    report.set_defaults(run=report_command.make)

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
