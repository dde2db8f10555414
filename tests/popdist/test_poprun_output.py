"""Output of instances is tagged, complete by line, with separate streams."""

import re

import pytest
from hypothesis import given, settings, strategies as st
from launching import PYTHON, lines, poprun
from popdist.launcher.output import Lines

pieces = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\r", b"")), max_size=12)


@settings(deadline=None, max_examples=50)
@given(pieces)
def test_lines_do_not_depend_on_how_they_come(parts):
    cutter, found = Lines(), []
    for part in parts:
        found += cutter.add(part)
    found += cutter.end()
    expected = b"".join(parts).split(b"\n")
    assert found == expected[:-1] + [line for line in expected[-1:] if line]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_progress_bar_is_one_line(size):
    written = b"\r 10%\r 50%\r100%\nnext\r\n\rlast 1\rlast 2\r"
    cutter, found = Lines(), []
    for begin in range(0, len(written), size):
        found += cutter.add(written[begin : begin + size])
    assert found + cutter.end() == [b"100%", b"next", b"last 2"]


def test_every_instance_is_tagged():
    out, err = poprun("--num-instances", 4, "echo", "hi")
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:hi" for i in range(4)]
    assert err == ""


def test_streams_stay_apart():
    out, err = poprun("--num-instances=2", "sh", "-c", "echo loss 1 >&2; echo passed")
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:passed" for i in range(2)]
    assert sorted(re.findall(r"\[(.*?),(.*?)\]<stderr>:(.*)", err)) == [
        ("1", "0", "loss 1"), ("1", "1", "loss 1")
    ]  # fmt: skip


def test_lines_are_not_mixed():
    text = "import os\nfor i in range(400):\n  os.write(1, b'%d ' % i * 40)\n  os.write(1, b'.\\n')"
    out, _ = poprun("--num-instances=4", PYTHON, "-c", text)
    for instance in range(4):
        assert lines(out, instance) == [f"{i} " * 40 + "." for i in range(400)]


def test_unfinished_lines_are_ended():
    assert poprun("printf", "a\\nb")[0] == "[1,0]<stdout>:a\n[1,0]<stdout>:b\n"


def test_output_of_one_instance():
    program = ("sh", "-c", "echo $RANK; echo $RANK >&2")
    out, err = poprun("--num-instances=3", "--only-output-from-instance", 1, *program)
    assert (out, err) == ("[1,1]<stdout>:1\n", "[1,1]<stderr>:1\n")


@pytest.mark.shared
def test_what_a_hidden_instance_said_last_is_told_when_it_fails(tmp_path):
    first = f"echo $RANK; touch {tmp_path}/up; exec sleep infinity"
    second = f"until [ -e {tmp_path}/up ]; do sleep 0.01; done; echo because >&2; exit 4"
    program = ("sh", "-c", f"if [ $RANK = 0 ]; then {first}; fi; {second}")
    out, err = poprun("--num-instances=2", "--only-output-from-instance=0", *program, status=4)
    assert out == "[1,0]<stdout>:0\n"
    *_, said, last = err.splitlines()
    assert said == "[1,1]<stderr>:because"
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} \d+ POPRUN \[E\] instance 1 on localhost failed first: it ended "
        r"with status 4. The others were ended.", last,
    )  # fmt: skip


def test_files_of_output(tmp_path):
    words = f"--output-filename {tmp_path}/out"
    program = ("sh", "-c", "echo $RANK; echo e$RANK >&2")
    out, _ = poprun("--num-instances=2", "--mpi-global-args", words, *program)
    assert sorted(out.splitlines()) == ["[1,0]<stdout>:0", "[1,1]<stdout>:1"]
    for i in range(2):
        assert (tmp_path / f"out/1/rank.{i}/stdout").read_text() == f"{i}\n"
        assert (tmp_path / f"out/1/rank.{i}/stderr").read_text() == f"e{i}\n"


def test_the_first_instance_reads_stdin(tmp_path):
    (tmp_path / "in").write_text("given\n")
    import subprocess

    from launching import POPRUN, clean_environment

    with open(tmp_path / "in") as file:
        done = subprocess.run([*POPRUN, "--num-instances", "2", "cat"], stdin=file, check=True,
                              capture_output=True, text=True, env=clean_environment())  # fmt: skip
    assert done.stdout == "[1,0]<stdout>:given\n"


def test_the_launchers_own_messages():
    _, err = poprun("-v", "true")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} \d+ POPRUN \[I\] starting 1 instance\(s\): true\n", err
    )
    assert " POPRUN [D] instance 0 on localhost is process " in poprun("-vv", "true")[1]
