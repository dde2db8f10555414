"""The stand-ins of horovod.torch and mpi4py work as programs call them; installed packages take
precedence.
"""

import subprocess
import sys
from pathlib import Path

import popdist
import pytest
from launching import NIGHT, PYTHON, clean_environment, lines, poprun
from popdist.compat import OFFERED
from test_together import PROGRAM

WHERE = "import horovod, mpi4py.MPI; print(horovod.__file__)"


@pytest.mark.shared
@pytest.mark.parametrize("count", [2, 3, 4] if NIGHT else [3])
def test_programs_call_them(count):
    out, _ = poprun("--num-instances", count, PYTHON, PROGRAM.with_name("stand_in_program.py"))
    assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:passed" for i in range(count)]


def test_what_is_installed_comes_first(tmp_path):
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod/__init__.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("print('read')")
    program = f"import sys; sys.path.append({str(tmp_path)!r})"  # as a folder of packages is
    assert "popdist" in poprun(PYTHON, "-c", f"{program}; {WHERE}")[0]
    path = ":".join([p for p in sys.path if p.endswith("python")] + [str(tmp_path)])
    out, err = poprun(PYTHON, "-c", WHERE, env={"PYTHONPATH": path})
    assert lines(out, 0) == ["read", f"{tmp_path}/horovod/__init__.py"]
    assert err == ""


def test_the_search_path_ends_with_them():
    out, _ = poprun(PYTHON, "-c", "import sys; print(sys.path[-1]); print(sys.path)")
    first, second = out.splitlines()
    assert first.endswith("popdist/compat/stand_ins")
    assert "compat/startup" not in second


def test_they_can_be_left_out():
    _, err = poprun("--compat", "no", PYTHON, "-c", WHERE, status=1)
    assert "No module named 'horovod'" in err
    program = f"import popdist; {WHERE}"
    here = {"PYTHONPATH": str(Path(popdist.__file__).parents[1])}  # -S: no site-packages
    isolated = poprun(PYTHON, "-S", "-c", program.replace(", mpi4py.MPI", ""), env=here)[0]
    assert "stand_ins/horovod" in isolated  # popdist adds it; Python reads no start-up file


def test_they_are_listed():
    done = subprocess.run([PYTHON, "-m", "popdist.compat"], check=True, capture_output=True,
                          text=True, env=clean_environment())  # fmt: skip
    assert done.stdout.splitlines() == [f"{m}: {', '.join(names)}" for m, names in OFFERED.items()]


OTHERS = ("horovod.torch.DistributedOptimizer", "mpi4py.MPI.Win", "mpi4py.MPI.COMM_WORLD.Send",
          "horovod.run", "mpi4py.rc")  # fmt: skip


@pytest.mark.shared
def test_what_they_refuse():
    """They refuse other names, and sending objects."""
    calls = [*OTHERS, "mpi4py.MPI.COMM_WORLD.bcast(object())"]
    program = "import horovod.torch, mpi4py.MPI\n"
    for module, names in OFFERED.items():
        program += "".join(f"{module}.{offered}\n" for offered in names)
    for call in calls:
        program += f"try: {call}\nexcept Exception as error: print(type(error).__name__, error)\n"
    out, _ = poprun(PYTHON, "-c", program)
    *refused, not_sent = lines(out, 0)
    for name, text in zip(OTHERS, refused, strict=True):
        module = name.rpartition(".")[0]
        expected = f"AttributeError {name} is not offered: this {module} is popdist's stand-in"
        assert text.startswith(expected)
    assert not_sent.startswith("TypeError bcast of a object")
