"""The options of poprun: one table that drives parsing, help, configuration files and the
documentation's page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from popdist.launcher import values

EFFECT, ACCOUNT, ACCEPTED = "effect", "account", "accepted"


@dataclass(frozen=True)
class Option:
    """A row.

    Attributes:
        name: The name without dashes.
        parse: Converts a text into the value. Raises ValueError that names the expected value.
            None for a switch without value.
        default: The value if the option is not given; None: not given.
        shows: The value's placeholder in help.
        doc: The text in help.
        does: Whether it has an effect, enters the cost model, or is only accepted.
        short: The one-letter spelling.
        adds: Whether a repeated option adds to its former value.
        in_files: Whether configuration files may have it.
    """

    name: str
    parse: Callable[[str], Any] | None
    default: Any
    shows: str
    doc: str
    does: str = EFFECT
    short: str = ""
    adds: bool = False
    in_files: bool = True

    @property
    def key(self) -> str:
        """The name as an attribute."""
        return self.name.replace("-", "_")

    @property
    def spelling(self) -> str:
        """The spelling for help and documentation."""
        short = f"-{self.short}, " if self.short else ""
        return f"{short}--{self.name}{f' {self.shows}' if self.shows else ''}"


_count, _flag, _text, _words = values.count, values.flag, values.text, values.words

TABLE = (
    Option("num-replicas", _count(1), None, "R",
           "Replicas over all instances, a multiple of --num-instances; one an instance if left "
           "out."),
    Option("num-instances", _count(1), 1, "N", "Processes of the program."),
    Option("ipus-per-replica", _count(1), 1, "n", "IPUs of a replica.", ACCOUNT),
    Option("host", values.hosts, None, "h0,h1|h[0-2,4]",
           "Hosts, which get equal blocks of instances in this order; remote ones are started by "
           "ssh.",
           short="H"),
    Option("host-file", _text, None, "file",
           "A file with one host a line, instead of --host."),
    Option("host-subnet", values.subnet, None, "a.b.c.d/n",
           "The network for traffic between hosts; ignored without hosts."),
    Option("only-output-from-instance", _count(0), None, "i",
           "Hide the output of the other instances. The last output of a failing one is still "
           "shown."),
    Option("print-topology", _flag, False, "yes|no",
           "Print a table of hosts, ILDs, instances and replicas."),
    Option("executable-cache-path", _text, None, "folder",
           "Folder for compiled programs, shared by all instances."),
    Option("offline-mode", _flag, False, "yes|no",
           "Run without devices: models are compiled only, and attaching is refused."),
    Option("numa-aware", _flag, False, "yes|no",
           "Bind the instances of a host to its NUMA nodes in turn."),
    Option("mpi-global-args", _words, (), "words",
           "Words for mpirun: --output-filename <folder> also writes one file for each instance "
           "and stream; --tag-output, --allow-run-as-root, --bind-to <what>, --mca <key> <value> "
           "are accepted.",
           adds=True),
    Option("mpi-local-args", _words, (), "words",
           "-x NAME=value sets a variable in each instance; -x NAME passes it on.", adds=True),
    Option("num-ilds", _count(1), None, "n",
           "Domains of IPU-Links; one for every 64 IPUs if left out.", ACCOUNT),
    Option("vipu-partition", _text, None, "name",
           "Name of the hardware partition: instances of equal names share a pool of devices."),
    Option("vipu-allocation", _text, None, "name", "Recorded.", ACCEPTED),
    Option("vipu-cluster", _text, None, "name", "Recorded.", ACCEPTED),
    Option("vipu-server-host", _text, None, "host", "Recorded.", ACCEPTED),
    Option("vipu-server-port", _count(1), 8090, "port", "Recorded.", ACCEPTED),
    Option("vipu-server-timeout", _count(0), 120, "seconds", "Recorded.", ACCEPTED),
    Option("vipu-partition-attempts", _count(1), None, "n", "Recorded.", ACCEPTED),
    Option("update-partition", _flag, False, "yes|no", "Nothing to do.", ACCEPTED),
    Option("reset-partition", _flag, False, "yes|no", "Nothing to do.", ACCEPTED),
    Option("remove-partition", _flag, True, "yes|no", "Nothing to do.", ACCEPTED),
    Option("sync-type", _text, None, "name", "Recorded.", ACCEPTED),
    Option("max-restarts", _count(0), 0, "n",
           "Start all instances again when one fails, at most n times."),
    Option("compat", _flag, True, "yes|no",
           "Offer stand-ins of horovod.torch and mpi4py; installed packages take precedence."),
    Option("allow-run-as-root", _flag, False, "yes|no", "Nothing to do.", ACCEPTED),
    Option("import-config", _text, None, "file",
           "Take options from a file (JSON or INI); the command line wins.", in_files=False),
    Option("export-config", _text, None, "file",
           "Write the options that were given to a file (INI for .ini, else JSON).",
           in_files=False),
    Option("overwrite-config", _flag, False, "yes|no", "Replace the file of --export-config.",
           in_files=False),
    Option("verbose", None, 0, "", "Log the main steps; -vv or --vv: in detail.", short="v",
           in_files=False),
    Option("vv", None, 0, "", "Twice --verbose.", in_files=False),
    Option("help", None, 0, "", "Print this.", in_files=False),
    Option("version", None, 0, "", "Print the version.", in_files=False),
    Option("version-format", values.one_of("text", "json"), "text", "text|json",
           "How --version writes it.", in_files=False),
)  # fmt: skip

BY_KEY = {option.key: option for option in TABLE}


def as_markdown() -> str:
    """Returns the table for the documentation."""
    rows = [
        f"| `{option.spelling.replace('|', chr(92) + '|')}` | {_shown(option)} | {option.does} | "
        f"{option.doc} |"
        for option in TABLE
    ]
    return "\n".join(["| option | default | here | meaning |", "|---|---|---|---|", *rows]) + "\n"


def as_help() -> str:
    """Returns the table for the terminal."""
    lines = ["usage: poprun [options] program [program arguments]", ""]
    for option in TABLE:
        default = _shown(option)
        lines.append(f"  {option.spelling}")
        lines.append(f"      {option.doc}{f' Default: {default}.' if default else ''}")
    return "\n".join(lines) + "\n"


def _shown(option: Option) -> str:
    if option.parse is None or option.default is None or option.default == ():
        return ""
    if isinstance(option.default, bool):
        return "yes" if option.default else "no"
    return str(option.default)
