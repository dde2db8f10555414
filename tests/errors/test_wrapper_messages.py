"""Tests every message about misuse of the wrapper: its class, its text, the user's line."""

import os
import re
import subprocess
import sys
import textwrap

import poptorch
import pytest
import torch
import zygote
from poptorch._versions import ONEDNN
from poptorch_core import _core
from torch.nn import functional as F

X = torch.randn(4, 3)
HERE = r"test_wrapper_messages\.py:\d+"


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.function = function

    def forward(self, x):
        return self.function(self.fc(x))


def branch(y):
    return y if y.sum() > 0 else -y


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda y: y * y.sum().item(), r"item"),
        (branch, r"value"),
        (lambda y: torch.nonzero(y), r"nonzero.*output shape is determined at runtime"),
        (lambda y: y[y > 0], r"output shape is determined at runtime"),
        (lambda y: y + torch.tensor(y.tolist()), r"value"),
    ],
    ids=["item", "if", "nonzero", "mask", "tolist"],
)
def test_reading_values_in_the_model_is_refused_with_the_users_line(function, text):
    with pytest.raises(poptorch.Error, match=f"(?s){text}") as caught:
        poptorch.inferenceModel(Call(function))(X)
    assert re.search(HERE, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    "second, text",
    [
        (X[:2], r"Shape mismatch for x: expected torch.Size\(\[4, 3\]\) but got torch.Size\(\[2, "),
        (X.half(), r"Data type mismatch for x: expected torch.float32 but got torch.float16"),
        ([X], r"Type mismatch for x"),
    ],
    ids=["shape", "dtype", "type"],
)
def test_another_signature_after_compilation(second, text):
    wrapped = poptorch.inferenceModel(Call(lambda y: y))
    wrapped(X)
    with pytest.raises(poptorch.Error, match=f"{text}.*destroy.*{HERE}"):
        wrapped(second)
    wrapped.destroy()
    if isinstance(second, torch.Tensor) and second.dtype == torch.float32:
        wrapped(second)


class Nested(torch.nn.Module):
    def forward(self, x, u=5):
        if isinstance(x, dict):
            return sum(x.values()) * u
        return x[0] * u


def test_other_structures_after_compilation():
    wrapped = poptorch.inferenceModel(Nested())
    wrapped([X, X])
    with pytest.raises(poptorch.Error, match="Length mismatch for x: expected 2 but got 1"):
        wrapped([X])
    with pytest.raises(poptorch.Error, match="Value mismatch for u: expected 5 but got 3"):
        wrapped([X, X], 3)
    wrapped = poptorch.inferenceModel(Nested())
    wrapped({"x": X, "y": X})
    with pytest.raises(poptorch.Error, match=r"Keys mismatch for x: Missing arguments: y\."):
        wrapped({"x": X})
    with pytest.raises(poptorch.Error, match=r"Unexpected arguments: z\."):
        wrapped({"x": X, "y": X, "z": X})


def test_other_numbers_of_arguments():
    class Two(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    wrapped = poptorch.inferenceModel(Two())
    with pytest.raises(poptorch.Error, match=f"Mandatory parameter y missing.*{HERE}"):
        wrapped(X)
    text = r"Too many arguments provided: expected \['x', 'y'\] \(2\) but got 3"
    with pytest.raises(AssertionError, match=text):
        wrapped(X, X, X)
    with pytest.raises(AssertionError, match="Parameter x was passed more than once"):
        wrapped(torch.ones(2), torch.ones(2), x=torch.ones(2))
    with pytest.raises(AssertionError, match="z is not a valid parameter"):
        wrapped(X, X, z=X)

    class Any(torch.nn.Module):
        def forward(self, *xs):
            return sum(xs)

    wrapped = poptorch.inferenceModel(Any())
    wrapped(X, X)
    with pytest.raises(
        poptorch.Error,
        match="Number of positional arguments mismatch: expected 2 arguments but got 3",
    ):
        wrapped(X, X, X)


def test_no_loss():
    model = Call(lambda y: y * 2)
    with pytest.raises(poptorch.Error, match="Couldn't find a loss in graph"):
        poptorch.trainingModel(model)(X)
    with pytest.raises(poptorch.Error, match=r"pass training=False to plan\(\) or estimate\(\)"):
        poptorch.estimate(model, X)  # a new module is in training mode


def test_a_loss_in_training_mode_only():
    class Scored(torch.nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return F.mse_loss(y, x) if self.training else y

    model = Scored(4, 4).eval()
    with pytest.raises(poptorch.Error, match="call train\\(\\) of the model first"):
        poptorch.trainingModel(model)(torch.ones(2, 4))


def test_two_losses():
    def losses(y):
        return F.mse_loss(y, y * 2), F.l1_loss(y, y * 3)

    with pytest.raises(
        poptorch.Error,
        match="Multiple independent losses found in graph. Graph must have one final loss. "
        "Wrap final graph loss in poptorch.identity_loss.",
    ):
        poptorch.trainingModel(Call(losses))(X)


def test_reassigned_buffer_and_cpu_tensor():
    class Reassigned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("y", torch.zeros(3))

        def forward(self, x):
            self.y = x.sum(0)
            return x + self.y

    with pytest.raises(
        poptorch.Error, match="Buffer y is reassigned within the model when calling the forward"
    ):
        poptorch.inferenceModel(Reassigned())(X)


def test_backward_on_an_output():
    wrapped = poptorch.trainingModel(Call(lambda y: poptorch.identity_loss(y, reduction="sum")))
    loss = wrapped(X)
    with pytest.raises(
        poptorch.Error, match=r"backward\(\) cannot be called explicitly on outputs of a PopTorch"
    ):
        loss.backward()


def test_batch_dimension():
    options = poptorch.Options().deviceIterations(3)
    with pytest.raises(
        AssertionError,
        match=r"Invalid batch dimension: In the input x, the batch dimension \(4\) must be a "
        r"multiple of Options.deviceIterations\(3\) \* .* = 3",
    ):
        poptorch.inferenceModel(Call(lambda y: y), options)(X)


def test_accumulation_in_inference():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    with pytest.raises(
        poptorch.Error,
        match=r"You must set poptorch.Options\(\).Training.gradientAccumulation to 1 or leave it",
    ):
        poptorch.inferenceModel(Call(lambda y: y), options)


def test_wrong_arguments_of_the_wrapping_functions():
    with pytest.raises(poptorch.Error, match="Invalid type: 'options' is of type"):
        poptorch.inferenceModel(Call(lambda y: y), {"deviceIterations": 1})
    with pytest.raises(poptorch.Error, match="expected a torch.nn.Module"):
        poptorch.trainingModel(3)
    with pytest.raises(AssertionError, match="Unsupported optimizer type"):
        model = Call(lambda y: y)
        poptorch.trainingModel(model, optimizer=torch.optim.Adagrad(model.parameters()))


def test_what_needs_a_compiled_model():
    wrapped = poptorch.inferenceModel(Call(lambda y: y))
    with pytest.raises(AssertionError, match="Model must be compiled before calling getTensorNam"):
        wrapped.getTensorNames()
    with pytest.raises(poptorch.Error, match="Please compile the model before obtaining compilati"):
        wrapped.compilationTime()
    with pytest.raises(poptorch.Error, match="Cycle count logging is disabled"):
        wrapped.cycleCount()
    with pytest.raises(poptorch.Error, match="Model has not been compiled"):
        wrapped.graph()


def test_unknown_graph_form():
    wrapped = poptorch.inferenceModel(Call(lambda y: y))
    wrapped(X)
    with pytest.raises(poptorch.Error, match="placed"):
        wrapped.graph("assembled")


def test_the_attributes_of_errors():
    error = poptorch.Error("the text")
    assert (error.message, error.type, error.location) == ("the text", "poptorch_py_error", "")
    assert str(error) == "'poptorch_py_error': the text"
    assert issubclass(poptorch.RecoverableError, poptorch.Error)
    assert issubclass(poptorch.UnrecoverableError, poptorch.Error)
    assert poptorch.RecoverableError("x", recovery_action="LINK_RESET").recovery_action
    assert poptorch.poptorch_core.Error is poptorch.Error
    with pytest.raises(poptorch.Error) as caught:
        poptorch.trainingModel(Call(lambda y: y * 2))(X)
    assert caught.value.type == "poptorch_cpp_error"
    assert "'poptorch_cpp_error': " in str(caught.value)


def import_poptorch(tmp_path, *, before):
    """Returns stderr of a process that imports poptorch after running `before`."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(before) + "\nimport poptorch\n")
    done = subprocess.run(
        [sys.executable, program],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


@pytest.mark.shared
def test_torch_of_another_version_at_import(tmp_path):
    found = import_poptorch(tmp_path, before="import torch; torch.__version__ = '2.12.1+cpu'")
    built_for = _core.torch_version()
    assert f"is built for torch {built_for} but found torch 2.12.1+cpu" in found
    assert f"pip install torch=={built_for}" in found


NATIVE_MODULES = {
    "oneDNN is missing": (
        "_torch",
        "libdnnl.so.3: cannot open shared object file",
        [f"oneDNN {ONEDNN}", "libdnnl", f"pip install onednn-cpu-gomp=={ONEDNN}"],
    ),
    "the processor lacks what the kernels need": (
        "_core",
        "[kernels] this build needs a processor with AVX2; this one lacks avx2.",
        ["DependencyError: 'poptorch_py_error': [kernels] this build needs a processor with AVX2"],
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize("case", NATIVE_MODULES)
def test_a_native_module_that_cannot_be_loaded(tmp_path, case):
    module, text, expected = NATIVE_MODULES[case]
    before = f"""
        import sys
        class Loader:
            def find_spec(self, name, path, target=None):
                if name == "poptorch_core.{module}":
                    raise ImportError({text!r})
        sys.meta_path.insert(0, Loader())
    """
    found = import_poptorch(tmp_path, before=before)
    assert [part for part in expected if part not in found] == []


@pytest.mark.shared
def test_a_bad_log_level(tmp_path):
    found = import_poptorch(
        tmp_path, before="import os; os.environ['POPTORCH_LOG_LEVEL'] = 'wibble'"
    )
    assert "POPTORCH_LOG_LEVEL is 'wibble'. Set it to TRACE, DEBUG, INFO, WARN, ERR or OFF" in found
    with pytest.raises(ValueError, match="Invalid log level integer"):
        poptorch.setLogLevel(5)
    with pytest.raises(ValueError, match="Unknown log level: wibble"):
        poptorch.setLogLevel("wibble")


def test_a_source_whose_path_is_no_text(tmp_path):
    """Messages name lines in folders whose names are in other encodings, too."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    program = """
        import poptorch, torch
        class Net(torch.nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x
        print(poptorch.inferenceModel(torch.nn.ReLU())(torch.ones(2)).tolist())
        try:
            poptorch.inferenceModel(Net())(torch.ones(3))
        except poptorch.Error as error:
            print(error.message)
        def raising(x):
            raise ValueError("mine")
        poptorch.inferenceModel(raising)(torch.ones(3))
    """
    with open(folder + b"/program.py", "w") as file:
        file.write(textwrap.dedent(program))
    ran = zygote.run([sys.executable, folder + b"/program.py"], capture_output=True)
    out = ran.stdout.decode()
    assert out.startswith("[1.0, 1.0]") and "caf?/program.py:5" in out
    assert ran.returncode == 1 and b"ValueError: mine" in ran.stderr
