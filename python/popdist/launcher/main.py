"""poprun: starts the instances of a program, and returns their exit status."""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from popdist.instance import STORE, note_of
from popdist.launcher import numa, remote
from popdist.launcher.command_line import Given, UsageError, parse, write_file
from popdist.launcher.environment import Environments, mpi_words, program_words, shown
from popdist.launcher.guard import Guard
from popdist.launcher.option_table import as_help
from popdist.launcher.plan import Plan, is_here, make_plan, topology
from popdist.launcher.running import Command, StartError
from popdist.launcher.sink import OutputError, write_all
from popdist.launcher.supervisor import Outcome, Supervisor
from poptorch_core.errors import listed

_MOST_NAMED = 4  # instances in a sentence


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status.

    It is 0 if every instance ended with 0, else that of the first that failed. It is 2 for an
    invalid command line.
    """
    _open_standard_files()
    try:
        given = parse(sys.argv[1:] if words is None else words)
        if given.help:
            _print(as_help())
            return 0
        if given.version:
            _print(_version_text(given.version_format) + "\n")
            return 0
        return _launch(given)
    except UsageError as error:
        say("E", str(error))
        return 2
    except StartError as error:
        say("E", str(error))
        return error.status
    except OutputError as error:
        say("E", f"{error}.")
        return 1
    except KeyboardInterrupt:  # while no instance runs, for example during the last messages
        return 128 + signal.SIGINT


def _open_standard_files() -> None:
    """Opens missing standard files: otherwise other files would get their numbers."""
    for file in range(3):
        try:
            os.fstat(file)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _print(text: str) -> None:
    try:
        write_all(1, text.encode())
    except OSError as error:
        raise OutputError(f"stdout cannot be written: {error.strerror}") from None


def say(level: str, text: str) -> None:
    """Writes a line of the launcher's log. level: I, D, W or E."""
    with contextlib.suppress(OSError):  # stderr has no reader
        write_all(2, _line(level, text))


def _line(level: str, text: str) -> bytes:
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03d}"
    return f"{clock} {os.getpid()} POPRUN [{level}] {text}\n".encode(errors="backslashreplace")


def _version_text(form: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("poptorch")
    except PackageNotFoundError:  # in a built tree
        number = "of this tree"
    return json.dumps({"poprun": number}) if form == "json" else f"poprun {number}"


def _launch(given: Given) -> int:
    plan = make_plan(given)
    _, output = mpi_words(given)
    if given.export_config is not None:
        write_file(given.export_config, given.texts, overwrite=given.overwrite_config)
    if given.print_topology:
        _print(topology(plan))
    if not given.program:
        if given.export_config is not None or given.print_topology:
            return 0
        raise UsageError("no program was named: poprun [options] program [program arguments].")
    folder = Path(tempfile.mkdtemp(prefix="poprun-"))
    guard = Guard(folder)
    try:
        return _run(given, plan, Environments(given, plan, folder, os.environ), guard, output)
    finally:
        guard.close()
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    given: Given, plan: Plan, environments: Environments, guard: Guard, output: Path | None
) -> int:
    verbosity = given.verbose + 2 * given.vv
    only = given.only_output_from_instance

    def told(text: str) -> bytes:
        return _line("D", text) if verbosity > 1 else b""

    if verbosity:
        say("I", f"starting {len(plan.instances)} instance(s): {shown(given.program)}")
    supervisor = Supervisor(guard, lambda index: only in (None, index), output, told)
    attempt = 0
    outcome = supervisor.run(_commands(given, plan, environments, attempt))
    while attempt < given.max_restarts and outcome.may_restart:
        attempt += 1
        _tell_failure(outcome)
        say("W", f"starting again: {attempt} of at most {given.max_restarts} restarts")
        outcome = supervisor.run(_commands(given, plan, environments, attempt))
    if outcome.error:
        say("E", f"{outcome.error}. The instances were ended.")
    elif outcome.failed is not None and not outcome.signal:
        _tell_failure(outcome)
    return outcome.status


def _commands(given: Given, plan: Plan, environments: Environments, attempt: int) -> list[Command]:
    words = program_words(given.program, sys.executable)
    nodes = numa.nodes() if given.numa_aware else []
    found = []
    for placed in plan.instances:
        if not is_here(placed.host):
            sends = remote.description(words, environments.passed_on(placed, attempt))
            far = remote.command(placed.host, sys.executable)
            found.append(Command(far, dict(os.environ), placed.host, sends=sends))
            continue
        local = placed.instance.local_index
        cpus = nodes[local % len(nodes)] if len(nodes) > 1 else None
        environment = environments.of(placed, attempt)
        kind, _, file = environment[STORE].partition(":")
        note = note_of(file, placed.instance.index) if kind == "file" else None
        found.append(Command(words, environment, placed.host, cpus, note=note))
    return found


def _tell_failure(outcome: Outcome) -> None:
    """Reports the first failure, at the end of the output."""
    failed = outcome.failed
    assert failed is not None
    said = b"".join(stream.last_lines() for stream in failed.streams)
    ended = f"instance {failed.index} on {failed.host} failed first: {failed.how()}"
    if outcome.before:  # the failed instance may have waited for one of these
        named = [f"instance {each.index} on {each.host}" for each in outcome.before]
        ended += f"; {listed(named, _MOST_NAMED)} had ended with status 0"
    if said:
        say("E", f"{ended}. Its last output:")
        with contextlib.suppress(OSError):
            write_all(2, said)
    say("E", f"{ended}. The others were ended.")


if __name__ == "__main__":
    sys.exit(main())
