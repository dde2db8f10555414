"""The folder of the device pool's lock files is private to the user; a folder that others can
change is refused.
"""

import os
import stat
import sys

import poptorch
import pytest
import zygote
from poptorch._impl.devices import ipu_pool
from poptorch._impl.files import private_folders


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path


def acquire(folder=""):
    ipu_pool.acquire(ipu_pool.Pool(2, 2, str(folder)), 1).release()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.shared
def test_the_folder_is_in_the_runtime_folder_and_private(temporary, monkeypatch):
    os.umask(os.umask(0))  # whatever it is
    acquire()
    own = temporary / f"poptorch-{os.geteuid()}"
    assert {mode(path) for path in (own, own / "ipus", own / "ipus/ipu2")} == {0o700}
    assert mode(own / "ipus/ipu2/0.lock") == 0o600
    (temporary / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(temporary / "run"))
    acquire()
    assert mode(temporary / "run/poptorch/ipus/ipu2") == 0o700


def test_a_runtime_folder_that_is_not_there_is_passed_over(temporary, monkeypatch):
    for given in (str(temporary / "none"), "relative", ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", given)
        assert private_folders.runtime_folder() == temporary / f"poptorch-{os.geteuid()}"


@pytest.mark.parametrize("level", ["", "ipus", "ipus/ipu2"])
@pytest.mark.parametrize("what", ["link", "open to others", "file"])
def test_what_others_could_have_laid_out_is_refused(temporary, level, what):
    path = temporary / f"poptorch-{os.geteuid()}" / level
    if level:
        path.parent.mkdir(mode=0o700, parents=True)
        path.parent.chmod(0o700)
        (temporary / f"poptorch-{os.geteuid()}").chmod(0o700)
    if what == "link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(temporary / "elsewhere")
    elif what == "file":
        path.touch()
    else:
        path.mkdir()
        path.chmod(0o755)
    expected = "mode 0755, but must be" if what == "open to others" else "cannot be used"
    with pytest.raises(poptorch.Error, match=rf"\[device pool\] the folder .*{expected}"):
        acquire()
    if what == "link":
        assert os.listdir(temporary / "elsewhere") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_refused(temporary):
    path = temporary / "poptorch-0"
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)
    with pytest.raises(poptorch.Error, match="is of user 12345 with mode 0700"):
        acquire()


def test_a_named_folder_that_others_can_write_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(poptorch.Error, match=r"others can write in '.*/open'"):
        acquire(tmp_path / "open")
    (tmp_path / "open").chmod(0o1777)  # as folders of temporary files have
    acquire(tmp_path / "open")


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_lock_file_that_is_none_is_refused(tmp_path, what):
    acquire(tmp_path)
    path = tmp_path / "ipu2/0.lock"
    path.unlink()
    if what == "link":
        (tmp_path / "victim").write_text("mine")
        path.symlink_to(tmp_path / "victim")
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(poptorch.Error, match=r"\[device pool\] the lock file 0.lock cannot be us"):
        acquire(tmp_path)
    if what == "link":
        assert (tmp_path / "victim").read_text() == "mine"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", "/proc/none"):
        with pytest.raises(poptorch.Error, match=r"\[device pool\] the folder '.*' cannot be used"):
            acquire(folder)


def test_what_a_lock_file_says_is_not_trusted(tmp_path):
    pool = ipu_pool.Pool(1, 2, str(tmp_path))
    lease = ipu_pool.acquire(pool, 1)
    (tmp_path / "ipu2/0.lock").write_text("../../etc/passwd")
    program = (
        "from poptorch._impl.devices.ipu_pool import Pool, acquire; "
        f"acquire(Pool(1, 2, {str(tmp_path)!r}), 1)"
    )
    failed = zygote.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "held by another process" in failed.stderr and "passwd" not in failed.stderr
    lease.release()
