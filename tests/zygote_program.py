"""Makes a fork of a process with torch and poptorch behave like a program that has just started."""

import atexit
import ctypes
import fcntl
import gc
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import tempfile
import threading
import types


def python_path(environment) -> list[str]:
    """Returns the folders that PYTHONPATH adds to sys.path."""
    given = environment.get("PYTHONPATH")
    return [os.path.abspath(folder) for folder in given.split(":")] if given else []


ON_INTERRUPT = signal.getsignal(signal.SIGINT)  # as Python sets it
MOST_FILES = 16  # most files of a program, with its standard streams
STDOUT_IS_LOST = 120  # Python's own status for it
PATH = [folder for folder in sys.path[1:] if folder not in python_path(os.environ)]


class ImportAgain:
    """Finds the loaded poptorch, and repeats what its import does with the environment."""

    def __init__(self) -> None:
        from poptorch import _logging, _native
        from poptorch._impl.options import environment

        self.logging, self.environment, self.native = _logging, environment, _native
        self.modules = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name.partition(".")[0] == "poptorch"
        }
        self.spec = self.modules["poptorch"].__spec__

    def set_level_of_core(self) -> None:
        """The core reads its level once, and ignores a name that it does not know."""
        levels, default = self.logging.LEVELS, self.logging.DEFAULT_LEVEL
        name = (os.environ.get("POPTORCH_LOG_LEVEL") or default).upper()
        known = (int(name),) if name.isdecimal() else levels.get(name, levels[default])
        self.native.set_log_level(known[0])

    def find_spec(self, name, path=None, target=None):
        if name != "poptorch":
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = self.spec.submodule_search_locations
        return spec

    def create_module(self, spec):
        sys.meta_path.remove(self)
        return self.modules["poptorch"]

    def exec_module(self, module) -> None:
        module.__spec__ = self.spec
        sys.modules.update(self.modules)
        os.environ.setdefault("RDMAV_FORK_SAFE", "1")
        self.logging.logger.handlers.clear()
        self.logging.set_up()
        self.environment.check()


class Program:
    """A program that a fork becomes. `words` begins with the path of Python."""

    def __init__(
        self, words, environment, folder, blocked, new_session=False, process_group=-1, passed=()
    ) -> None:
        self.words = words[1:]
        self.environment, self.folder = environment, folder
        self.blocked = blocked  # the signals that its caller blocks
        self.new_session, self.process_group = new_session, process_group
        self.passed = passed  # numbers of its files besides the standard ones

    def begin(self, files) -> None:
        """Gives this process the state of a Python that has just started.

        files: the standard streams, and those that get the numbers `passed`.
        """
        if self.new_session:
            os.setsid()
        if self.process_group is not None and self.process_group >= 0:
            os.setpgid(0, self.process_group)
        numbers = [0, 1, 2, *self.passed]
        free = 1 + max(*numbers, *files)
        files = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in files]
        os.closerange(3, free)
        for file, number in zip(files, numbers, strict=True):
            os.dup2(file, number)
        os.closerange(free, 1024)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, ON_INTERRUPT)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.stdin = sys.__stdin__ = _stream(sys.stdin, 0)
        sys.stdout = sys.__stdout__ = _stream(sys.stdout, 1)
        sys.stderr = sys.__stderr__ = _stream(sys.stderr, 2)
        sys.excepthook = sys.__excepthook__
        tempfile.tempdir = None
        sys.modules["numpy"].random.seed()
        if not isinstance(sys.meta_path[0], ImportAgain):
            sys.meta_path.insert(0, ImportAgain())
        sys.meta_path[0].set_level_of_core()
        self._set_arguments()

    def _set_arguments(self) -> None:
        kind, rest = self.words[0], self.words[1:]
        sys.orig_argv = [sys.executable, *self.words]
        sys.argv = [kind, *(rest[1:] if kind in ("-c", "-m") else rest)]
        first = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.realpath(kind)))
        sys.path[:] = [first, *dict.fromkeys([*python_path(self.environment), *PATH])]

    def execute(self) -> None:
        """Runs the program as __main__. Its exceptions pass."""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__builtins__, main.__annotations__ = sys.modules["builtins"], {}
        if self.words[0] == "-m":
            runpy._run_module_as_main(self.words[1])
            return
        if self.words[0] == "-c":
            main.__loader__ = importlib.machinery.BuiltinImporter
            name, text = "<string>", self.words[1]
        else:
            name = main.__file__ = os.path.abspath(self.words[0])
            main.__cached__ = None
            main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
            with open(name, "rb") as file:
                text = file.read()
        exec(compile(text, name, "exec", dont_inherit=True), main.__dict__)


def _stream(old, number):
    """Opens a standard stream as Python does, with the current descriptor."""
    raw = open(number, "wb" if number else "rb", closefd=False)
    raw.raw.name = old.name
    stream = io.TextIOWrapper(
        raw,
        encoding=old.encoding,
        errors=old.errors,
        newline="\n" if number else None,
        line_buffering=number == 2 or raw.isatty(),
    )
    stream.mode = "w" if number else "r"
    return stream


def become(program: Program, files) -> None:
    """Runs the program in this fork of any process, from any depth, and never returns."""
    program.begin(files)
    status = 0
    try:
        program.execute()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except BaseException as error:
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        own = error.__traceback__.tb_next.tb_next  # without the frames of this file
        sys.excepthook(type(error), error.with_traceback(own), own)
        del error, own
    end(status)


def end(status: int) -> None:
    """Ends this process as Python does, but keeps the objects of modules other than __main__: to
    free everything of torch takes a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = status or STDOUT_IS_LOST
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        status = 128 + signal.SIGINT  # the signal is blocked
    ctypes.PyDLL(None).exit(status)  # with the destructors of libraries; other threads stand still
