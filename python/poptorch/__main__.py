"""Runs a command of `python -m poptorch`."""

import os
import signal
import sys

from poptorch._impl.command_line import parser
from poptorch_core import Error


def main(arguments: list[str] | None = None) -> int:
    """Runs the command that the arguments name.

    Args:
        arguments: The command line without the program's name. None: that of the process.

    Returns:
        The exit status: 0 for success, 1 if a file is damaged or an op is not supported, 2 if
        nothing could be done, 141 if nobody read the output to its end.
    """
    given = parser.make().parse_args(arguments)
    try:
        status = given.run(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest at the exit
        return 128 + signal.SIGPIPE
    except Error as error:
        print(f"error: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
