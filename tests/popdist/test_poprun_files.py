"""Files of options give back the options written to them; options that a file cannot hold are
refused.
"""

import json
import socket

import pytest
from launching import PYTHON, poprun
from popdist.launcher.command_line import UsageError, parse, write_file
from popdist.launcher.environment import mpi_words
from popdist.launcher.plan import is_here, make_plan


@pytest.mark.parametrize("name", ["options.json", "options.ini"])
@pytest.mark.parametrize("value", ["a b", "%(x)s ; # $HOME", "\udcff", "a=b: c", "[poprun]"])
def test_texts_come_back(tmp_path, name, value):
    file = str(tmp_path / name)
    write_file(file, {"sync_type": value, "mpi_local_args": " -x A=1 "}, overwrite=False)
    given = parse(["--import-config", file])
    assert given.sync_type == value and given.mpi_local_args == ("-x", "A=1")


@pytest.mark.shared
@pytest.mark.parametrize("value", ["a\nb", "a\nvv = 1", " a", "a\r"])
def test_what_an_ini_file_cannot_hold(tmp_path, value):
    for name in ("options.json", "options.ini"):
        file = tmp_path / name
        words = ["--sync-type", value, "--export-config", file]
        if name.endswith("ini"):
            _, err = poprun(*words, status=2)
            assert "an INI file cannot hold --sync-type" in err and not file.exists()
        else:
            poprun(*words)
            assert json.loads(file.read_text()) == {"sync-type": value}
            assert parse(["--import-config", str(file)]).sync_type == value


@pytest.mark.parametrize(
    "text, what",
    [
        ('{"num-instances": 2, "num-instances": 3}', "'num-instances' is given twice"),
        ('{"num-instances": 2, "num_instances": 3}', "num-instances is given twice"),
        ("num-instances = 2\n--num-instances = 3", "num-instances is given twice"),
        ("num-instances = 2\nnum-instances = 3", "cannot be read"),
        ('{"mpi-local-args": "-x A=b\\u0000c"}', "--mpi-local-args takes a text without NUL"),
        ('{"sync-type": "\\ud800"}', "--sync-type takes a text without NUL"),
        ('{"num-instances": 1.5}', "takes a text, a number, yes or no, but got 1.5"),
        ('{"num-instances": 1' + "0" * 5000 + "}", "cannot be read"),
        ("[poprun]\n[poprun]", "cannot be read"),
        ("", "its sections are"),
    ],
)
def test_files_that_cannot_be_options(tmp_path, text, what):
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError, match=what):
        parse(["--import-config", str(tmp_path / "file")])


def test_a_file_of_hosts_that_is_no_text(tmp_path):
    (tmp_path / "hosts").write_bytes(b"\xff\n")
    with pytest.raises(UsageError, match="it takes names of hosts as"):
        make_plan(parse(["--host-file", str(tmp_path / "hosts")]))


def test_a_mark_at_the_beginning_of_a_file(tmp_path):
    (tmp_path / "file").write_text('\ufeff{"num-instances": 2}')
    assert parse(["--import-config", str(tmp_path / "file")]).num_instances == 2


@pytest.mark.parametrize("words", ["-x", "-x =a", "-x ''"])
def test_variables_without_a_name(words):
    with pytest.raises(UsageError, match="-x"):
        mpi_words(parse(["--mpi-local-args", words]))


def test_this_host_by_its_names_and_addresses():
    for name in ("localhost", "127.0.0.1", socket.gethostname()):
        assert is_here(name)
        assert poprun("--host", name, "echo", "hi")[0] == "[1,0]<stdout>:hi\n"
    assert not is_here("192.0.2.200") and not is_here("me@localhost")
    words = ["--num-instances=2", "--host", f"127.0.0.1,{socket.gethostname()}"]
    with pytest.raises(UsageError, match="are one host, this one. Name it once"):
        make_plan(parse(words))


def test_the_port_of_a_program_is_nobody_elses_while_the_launcher_runs():
    """A server that sets SO_REUSEADDR, such as torch.distributed's, gets the port."""
    program = """if True:
        import os, socket
        def listens(reuses):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses)
                try:
                    server.bind((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
                    server.listen()
                except OSError as error:
                    return error.strerror
                return "listens"
        print(listens(0), listens(1), sep=", ")"""
    out, _ = poprun(PYTHON, "-c", program)
    assert out == "[1,0]<stdout>:Address already in use, listens\n"
