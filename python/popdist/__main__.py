"""`python -m popdist program …`: under torchrun, mpirun or srun, the program gets the variables
that poprun would set; otherwise this is poprun."""

import os
import sys

from popdist import foreign, instance
from popdist.launcher.command_line import UsageError
from popdist.launcher.environment import program_words
from popdist.launcher.main import main, say
from popdist.launcher.values import count
from poptorch_core.errors import Error

_OPTIONS = ("--replicas-per-instance", "--ipus-per-replica")


def run() -> int:
    """Returns the exit status; under another launcher the program replaces this process."""
    try:
        launcher = None if instance.is_set() else foreign.launcher_of(os.environ)
        if launcher is None:
            words = sys.argv[1:]
            if words and words[0].partition("=")[0] == _OPTIONS[0]:
                raise UsageError(
                    f"{_OPTIONS[0]} is for processes that torchrun, mpirun or srun has started; "
                    "none has. Use --num-instances and --num-replicas."
                )
            return main(words)
        numbers, program = _parse(sys.argv[1:], launcher.name)
        found = foreign.translated(launcher, os.environ, *numbers)
        words = list(program_words(tuple(program), sys.executable))
        os.execvpe(words[0], words, found)
    except UsageError as error:
        say("E", str(error))
        return 2
    except Error as error:
        say("E", error.message)
        return 2
    except OSError as error:
        say("E", f"cannot start the program: {error}")
        return 127
    return 0


def _parse(words: list[str], launcher: str) -> tuple[list[int], list[str]]:
    numbers = dict.fromkeys(_OPTIONS, 1)
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name == "--":
            break
        if name not in _OPTIONS:
            raise UsageError(
                f"{name}: {launcher} has started the processes already; the options here are "
                f"{' and '.join(_OPTIONS)}."
            )
        if not equals:
            value = words.pop(0) if words else ""
        try:
            numbers[name] = count(1)(value)
        except ValueError as error:
            raise UsageError(f"{name} takes {error}, but got {value!r}.") from None
    if not words:
        raise UsageError("no program was named.")
    return list(numbers.values()), words


if __name__ == "__main__":
    sys.exit(run())
