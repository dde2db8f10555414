"""Files that are there whole or not at all: kills and faults at every call of the writer."""

import errno
import fcntl
import os
import signal

import poptorch
import pytest
from poptorch_core.whole_files import write_whole

OLD, NEW = b"old " * 1000, b"new " * 300000  # more than the stream's buffer
CALLS = ("open", "write", "fsync", "replace")


def write_new(stream):
    for start in range(0, len(NEW), 100000):
        stream.write(NEW[start : start + 100000])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(OLD)
    return path


def instead(monkeypatch, name, number, do):
    """The call of that number of os.<name> is `do`; gives the list of calls that were made."""
    plain, calls = getattr(os, name), []

    def call(*arguments, **keywords):
        calls.append(name)
        if len(calls) == number:
            return do(plain, *arguments, **keywords)
        return plain(*arguments, **keywords)

    monkeypatch.setattr(os, name, call)
    return calls


def raising(code):
    def fail(plain, *arguments, **keywords):
        raise OSError(code, os.strerror(code))

    return fail


def counts():
    """How often one writing makes each call: what the tests below go through."""
    return {"open": 2, "write": 6, "fsync": 2, "replace": 1}


def test_the_calls_are_those(file, monkeypatch):
    made = {name: instead(monkeypatch, name, 0, None) for name in CALLS}
    write_whole(file, write_new)
    assert {name: len(calls) for name, calls in made.items()} == counts()
    assert file.read_bytes() == NEW and file.stat().st_mode & 0o777 == 0o600


POINTS = [(name, number) for name, most in counts().items() for number in range(1, most + 1)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("name", "number"), POINTS)
def test_an_error_at_any_call_leaves_the_old_file(file, monkeypatch, name, number, code):
    with monkeypatch.context() as patch:
        instead(patch, name, number, raising(code))
        with pytest.raises(poptorch.Error, match=f"a.pt' cannot be written: {os.strerror(code)}. "):
            write_whole(file, write_new)
    # Only when the new name could not be brought to the disk is it the new one.
    assert file.read_bytes() == (NEW if (name, number) == ("fsync", 2) else OLD)
    assert os.listdir(file.parent) == ["a.pt"]


def test_a_file_system_whose_folders_cannot_be_brought_to_the_disk(file, monkeypatch):
    instead(monkeypatch, "fsync", 2, raising(errno.EINVAL))
    write_whole(file, write_new)
    assert file.read_bytes() == NEW


@pytest.mark.parametrize("number", range(1, counts()["write"] + 1))
@pytest.mark.parametrize("share", [0.5, 0])
def test_short_writes_go_on_or_are_an_error(file, monkeypatch, number, share):
    def write_less(plain, descriptor, data):
        return plain(descriptor, data[: int(len(data) * share)])

    with monkeypatch.context() as patch:
        instead(patch, "write", number, write_less)
        if share:
            write_whole(file, write_new)
        else:
            with pytest.raises(poptorch.Error, match="cannot be written: Input/output error"):
                write_whole(file, write_new)
    assert file.read_bytes() == (NEW if share else OLD)
    assert os.listdir(file.parent) == ["a.pt"]


@pytest.mark.shared
@pytest.mark.signals
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("name", "number"), POINTS)
def test_a_kill_at_any_call_leaves_one_whole_file(file, monkeypatch, name, number, after):
    def kill(plain, *arguments, **keywords):
        if after:
            plain(*arguments, **keywords)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            instead(monkeypatch, name, number, kill)
            write_whole(file, write_new)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert file.read_bytes() in (OLD, NEW)
    assert len(os.listdir(file.parent)) <= 2
    write_whole(file.with_name("b.pt"), lambda stream: stream.write(b"b"))
    assert sorted(os.listdir(file.parent)) == ["a.pt", "b.pt"]


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


def test_a_temporary_that_another_takes_for_abandoned_is_not_used(file, monkeypatch):
    """It looks between a writer's opening and locking of the file, and removes it."""
    plain, names = fcntl.flock, []

    def removed_first(descriptor, operation):
        if not names:
            names.extend(n for n in os.listdir(file.parent) if n.endswith(".tmp"))
            os.unlink(file.with_name(names[0]))
        return plain(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    write_whole(file, write_new)
    assert len(names) == 1
    assert file.read_bytes() == NEW and os.listdir(file.parent) == ["a.pt"]


def test_what_is_no_abandoned_temporary_stays(file):
    names = [".poptorch-folder.tmp", ".poptorch-link.tmp", "other.tmp"]
    file.with_name(names[0]).mkdir()
    file.with_name(names[1]).symlink_to(file)
    file.with_name(names[2]).touch()
    write_whole(file, write_new)
    assert sorted(os.listdir(file.parent)) == sorted([*names, "a.pt"])


def test_a_link_is_replaced_and_not_followed(file):
    link = file.with_name("link.pt")
    link.symlink_to(file)
    write_whole(link, write_new)
    assert file.read_bytes() == OLD and link.read_bytes() == NEW and not link.is_symlink()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("none/a.pt", "No such file or directory. Make the folder first"),
        (".", "Is a directory. Name a file, not a folder"),
        ("a.pt/b.pt", "Not a directory. Choose a path whose folders are folders"),
        ("x" * 300, "File name too long. Choose a shorter name"),
    ],
)
def test_places_that_cannot_be_written(file, path, text):
    with pytest.raises(poptorch.Error, match=text):
        write_whole(file.parent / path, write_new)
    assert os.listdir(file.parent) == ["a.pt"] and file.read_bytes() == OLD


def test_a_file_system_without_locks(file, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_whole(file, write_new)
    assert file.read_bytes() == NEW and os.listdir(file.parent) == ["a.pt"]
