"""Tests poprun's command line: every option in every spelling, files of options, and refusals."""

import json
from pathlib import Path

import pytest
from launching import poprun
from popdist.launcher import values
from popdist.launcher.command_line import UsageError, parse
from popdist.launcher.environment import mpi_words
from popdist.launcher.option_table import TABLE, as_help, as_markdown
from popdist.launcher.plan import make_plan, topology

# A text for each kind of value, and the value that it becomes.
SAMPLES = {
    "host": ("h[0-1],x", ("h0", "h1", "x")),
    "host-subnet": ("10.1.3.0/24", "10.1.3.0/24"),
    "mpi-global-args": ("--tag-output", ("--tag-output",)),
    "mpi-local-args": ("-x PATH", ("-x", "PATH")),
    "import-config": (None, None),
    "version-format": ("json", "json"),
}
WITH_VALUE = [option for option in TABLE if option.parse is not None]
FLAGS = [option.name for option in TABLE if isinstance(option.default, bool)]


def sample(option):
    if option.name in SAMPLES:
        return SAMPLES[option.name]
    if option.name in FLAGS:
        return "on", True
    return ("7", 7) if option.parse and option.shows in _NUMBERS else ("text", "text")


_NUMBERS = {"R", "N", "n", "i", "port", "seconds"}


@pytest.mark.parametrize("option", WITH_VALUE, ids=lambda option: option.name)
def test_values_come_as_the_next_word_or_behind_a_sign(option):
    text, value = sample(option)
    if text is None:
        return
    program = ("prog", "--num-instances", "3")
    for words in (
        [f"--{option.name}", text],
        [f"--{option.name}={text}"],
        *([[f"-{option.short}", text]] if option.short else []),
    ):
        given = parse([*words, *program])
        assert given.values[option.key] == value
        assert given.program == program
    assert parse(program).values[option.key] == option.default


def test_the_table_names_every_option_that_programs_use():
    used = """num-replicas num-instances ipus-per-replica host host-subnet only-output-from-instance
    print-topology executable-cache-path offline-mode numa-aware mpi-global-args mpi-local-args
    num-ilds vipu-partition vipu-server-host vipu-server-port vipu-server-timeout vipu-allocation
    vipu-cluster vipu-partition-attempts update-partition reset-partition remove-partition sync-type
    max-restarts allow-run-as-root import-config export-config overwrite-config help version
    version-format verbose vv host-file compat"""
    assert {option.name for option in TABLE} == set(used.split())
    assert all(f"--{option.name}" in as_help() and f"--{option.name}" in as_markdown()
               for option in TABLE)  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_flags_take_yes_and_no(name):
    key = name.replace("-", "_")
    for text in ("yes", "1", "on", "true", "TRUE"):
        assert parse([f"--{name}", text]).values[key] is True
    for text in ("no", "0", "off", "false", "No"):
        assert parse([f"--{name}={text}"]).values[key] is False
    with pytest.raises(UsageError, match=f"--{name} takes yes or no .*'maybe'"):
        parse([f"--{name}", "maybe"])


def test_switches_are_counted():
    assert parse(["-v"]).verbose == parse(["--verbose"]).verbose == 1
    assert parse(["-vv"]).verbose == parse(["-v", "--verbose"]).verbose == 2
    assert parse(["--vv"]).vv == 1
    with pytest.raises(UsageError, match="--verbose takes no value"):
        parse(["--verbose=1"])


def test_options_end_at_the_program():
    given = parse(["--num-instances", "2", "--", "--strange", "-x"])
    assert given.program == ("--strange", "-x")
    assert parse(["echo", "--help"]).help == 0
    assert parse(["-", "--help"]).program == ("-", "--help")
    with pytest.raises(UsageError, match="--num-instances needs a value"):
        parse(["--num-instances"])


@pytest.mark.parametrize(
    "wrong, near",
    [
        ("--hosts", "--host"),
        ("--num-instance", "--num-instances"),
        ("--process-placement", "--"),
        ("--instances-per-host", "--"),
        ("-n", "--"),
    ],
)
def test_unknown_options_are_refused_with_the_nearest(wrong, near):
    out, err = poprun(wrong, "2", "echo", "hi", status=2)
    assert out == "" and f"unknown option {wrong}. The nearest is {near}" in err


def test_values_of_later_options_win_and_words_add_up():
    given = parse(["--num-instances", "2", "--num-instances=4", "--mpi-local-args=-x A=1",
                   "--mpi-local-args", "-x 'B=two words'"])  # fmt: skip
    assert given.num_instances == 4
    assert mpi_words(given) == ({"A": "1", "B": "two words"}, None)


def test_words_for_mpirun():
    given = parse(["--mpi-global-args", "--tag-output --mca btl self -x C --output-filename d"])
    variables, folder = mpi_words(given)
    assert variables == {"C": None} and str(folder) == "d"
    with pytest.raises(UsageError, match="'--nonsense', which is unknown"):
        mpi_words(parse(["--mpi-global-args", "--nonsense"]))
    with pytest.raises(UsageError, match="followed by 1 word"):
        mpi_words(parse(["--mpi-local-args", "-x"]))


@pytest.mark.parametrize(
    "text, names",
    [
        ("h0,h1", "h0 h1"),
        ("h[0-2,4]", "h0 h1 h2 h4"),
        ("a[08-10]b,c", "a08b a09b a10b c"),
        ("r[1-2]n[0-1]", "r1n0 r1n1 r2n0 r2n1"),
        ("me@h.domain", "me@h.domain"),
    ],
)
def test_hosts(text, names):
    assert values.hosts(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "h[", "h[a]", "a b", "h;rm", ",", "h[2-1]"]
)
def test_what_is_no_host(text):
    with pytest.raises(ValueError, match="names of hosts"):
        values.hosts(text)


@pytest.mark.parametrize(
    "words, text",
    [
        (
            "--num-replicas 3 --num-instances 2",
            "--num-replicas 3 is not a multiple of --num-instances 2",
        ),
        ("--num-instances 2 --only-output-from-instance 2", "numbered from 0 to 1"),
        ("--num-instances 3 --host a,b", "--num-instances 3 is not a multiple of the 2 hosts"),
        ("--host a --host-file f", "exclude each other"),
        ("--host a,a --num-instances 2", "named twice"),
        ("--num-replicas 65", "65 IPUs .* in 2 ILDs .* --num-instances 1"),
        ("--num-instances 2 --num-ilds 3", "in 3 ILDs"),
        ("--host-file /nowhere", "No such file"),
    ],
)
def test_plans_that_cannot_be(words, text):
    with pytest.raises(UsageError, match=text):
        make_plan(parse(words.split()))


def test_topology():
    given = parse("--num-replicas 8 --num-instances 2".split())
    assert topology(make_plan(given)) == (
        " ===========================================\n"
        "|              poprun topology              |\n"
        "|===========================================|\n"
        "| hosts     |           localhost           |\n"
        "|-----------|-------------------------------|\n"
        "| ILDs      |               0               |\n"
        "|-----------|-------------------------------|\n"
        "| instances |       0       |       1       |\n"
        "|-----------|-------------------------------|\n"
        "| replicas  | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |\n"
        " -------------------------------------------\n"
    )


def test_topologies_of_hosts_and_domains():
    words = "--host node[1-2] --num-instances 4 --num-replicas 128 --num-ilds 2"
    rows = topology(make_plan(parse(words.split()))).splitlines()
    assert len({len(row) for row in rows[1:-1]}) == 1
    cells = [row.strip("|").split("|")[1:] for row in rows[3:-1:2]]
    assert [[cell.strip() for cell in row] for row in cells] == [
        ["node1", "node2"], ["0", "1"], ["0", "1", "2", "3"], [str(i) for i in range(128)]
    ]  # fmt: skip
    narrow = topology(make_plan(parse(["--host", "a-rather-long-name"])))
    assert "| a-rather-long-name |" in narrow


def test_a_file_of_hosts(tmp_path):
    (tmp_path / "hosts").write_text("# two\na slots=4\n\nb[1-2]\n")
    given = parse(["--host-file", str(tmp_path / "hosts"), "--num-instances", "3"])
    assert make_plan(given).hosts == ["a", "b1", "b2"]


@pytest.mark.parametrize("name", ["options.json", "options.ini"])
def test_options_go_to_a_file_and_come_back(tmp_path, name):
    file = tmp_path / name
    words = ["--num-instances", "2", "--numa-aware", "off", "--mpi-local-args", "-x A='b c'"]
    assert poprun(*words, "--export-config", file) == ("", "")
    given = parse(["--import-config", str(file), "--num-instances=4", "prog"])
    assert (given.num_instances, given.numa_aware, given.mpi_local_args) == (
        4, False, ("-x", "A=b c")
    )  # fmt: skip
    _, err = poprun("--export-config", file, status=2)
    assert "the file exists" in err
    poprun("--num-instances=3", "--export-config", file, "--overwrite-config=yes")
    assert parse(["--import-config", str(file)]).num_instances == 3


@pytest.mark.parametrize(
    "text, what",
    [
        ('{"num-instance": 2}', "unknown option 'num-instance'. The nearest is --num-instances"),
        ('{"num-instances": "x"}', "--num-instances takes a whole number"),
        ('{"num-instances": null}', "takes a text"),
        ("[other]\na = 1", "sections"),
        ("nonsense", "cannot be read"),
        ('{"import-config": "x"}', "unknown option"),
        ("[" * 5000, "cannot be read"),
    ],
)
def test_files_that_cannot_be_options(tmp_path, text, what):
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError, match=what):
        parse(["--import-config", str(tmp_path / "file")])


def test_files_are_data(tmp_path):
    ini, as_json = tmp_path / "a.ini", tmp_path / "b.json"
    ini.write_text("num-instances = 2\nnumerical = %(x)s\n".replace("numerical", "sync-type"))
    as_json.write_text(json.dumps({"poprun": {"num_instances": 2, "numa-aware": True,
                                              "host": ["localhost"]}}))  # fmt: skip
    assert parse(["--import-config", str(ini)]).sync_type == "%(x)s"
    given = parse(["--import-config", str(as_json)])
    assert (given.num_instances, given.numa_aware, given.host) == (2, True, ("localhost",))


def test_what_is_said_without_a_program():
    assert poprun("--help")[0].startswith("usage: poprun [options] program")
    assert poprun("--version")[0].startswith("poprun ")
    assert "poprun" in json.loads(poprun("--version", "--version-format=json")[0])
    assert "no program was named" in poprun("--num-instances=2", status=2)[1]
    assert "poprun topology" in poprun("--print-topology=yes")[0]


def test_the_page_has_the_table():
    page = Path(__file__).parents[2] / "docs/reference/poprun.md"
    assert as_markdown() in page.read_text(), "run python tools/write_launcher_options.py"
