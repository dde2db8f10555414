"""A file that Python writes is complete or absent after kills and errors, and with several writers.

tests/unit/whole_file_test.cpp lets every call of the writer fail.
"""

import os
import re
import resource
import signal

import poptorch
import pytest
from poptorch.testing import inject_fault
from poptorch_core.whole_files import write_whole

OLD, NEW = b"old " * 1000, b"new " * 300000  # more than the stream's buffer
# write_new() calls the core with six buffers; then the file is synced, renamed, and the folder
# synced: each is preceded by a point where faults strike.
POINTS = 9


def write_new(stream):
    for start in range(0, len(NEW), 100000):
        stream.write(NEW[start : start + 100000])


def in_child(work):
    """Returns the exit code of a child that does `work`: 1 after an exception."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(OLD)
    return path


def test_a_file_is_its_owners_alone(file):
    write_whole(file, write_new)
    assert file.read_bytes() == NEW and file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["a.pt"]


@pytest.mark.signals
@pytest.mark.parametrize("number", range(1, POINTS + 2))
def test_a_kill_at_any_point_leaves_one_whole_file(file, number):
    def work():
        inject_fault("save", "SIGKILL", nth=number)
        write_whole(file, write_new)

    assert in_child(work) == (-signal.SIGKILL if number <= POINTS else 0)
    assert file.read_bytes() == (OLD if number < POINTS else NEW)
    assert len(os.listdir(file.parent)) <= 2
    write_whole(file.with_name("b.pt"), lambda stream: stream.write(b"b"))
    assert sorted(os.listdir(file.parent)) == ["a.pt", "b.pt"]


def test_an_error_of_the_disk_leaves_the_old_file(file):
    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, resource.RLIM_INFINITY))
        with pytest.raises(poptorch.Error, match=r"\[checkpoint\] cannot write .*: File too large"):
            write_whole(file, write_new, "checkpoint")
        assert os.listdir(file.parent) == ["a.pt"]

    assert in_child(work) == 0
    assert file.read_bytes() == OLD and os.listdir(file.parent) == ["a.pt"]


def test_an_exception_of_the_writer_leaves_the_old_file(file):
    def interrupted(stream):
        write_new(stream)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(file, interrupted)
    assert file.read_bytes() == OLD and os.listdir(file.parent) == ["a.pt"]


def test_two_writers_do_not_disturb_each_other(file):
    def write_another(stream):
        write_whole(file.with_name("b.pt"), lambda inner: inner.write(b"b"))
        write_new(stream)

    write_whole(file, write_another)
    assert file.read_bytes() == NEW
    assert sorted(os.listdir(file.parent)) == ["a.pt", "b.pt"]


def test_what_no_writer_has_left_stays(file):
    folder, link, pipe, other = (
        *(f".poptorch-unfinished-{kind}" for kind in ("folder", "link", "pipe")),
        "other",
    )
    file.with_name(folder).mkdir()
    file.with_name(link).symlink_to(file)
    os.mkfifo(file.with_name(pipe))
    file.with_name(other).touch()
    write_whole(file, write_new)
    assert sorted(os.listdir(file.parent)) == sorted([folder, link, pipe, other, "a.pt"])


def test_a_link_is_replaced_and_not_followed(file):
    link = file.with_name("link.pt")
    link.symlink_to(file)
    write_whole(link, write_new)
    assert file.read_bytes() == OLD and link.read_bytes() == NEW and not link.is_symlink()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none/a.pt", "No such file or directory"),
        (".", "Is a directory"),
        ("a.pt/b.pt", "Not a directory"),
        ("x" * 300, "File name too long. Choose a shorter name."),
    ],
)
def test_places_that_cannot_be_written(file, path, problem):
    place = file.parent / path
    with pytest.raises(poptorch.Error, match=re.escape(f"cannot write '{place}': {problem}")):
        write_whole(place, write_new)
    assert os.listdir(file.parent) == ["a.pt"] and file.read_bytes() == OLD
