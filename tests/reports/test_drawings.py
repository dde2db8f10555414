"""Tests figures of schedules and memory, and the display of objects in notebooks."""

import io
import sys
import textwrap
from html.parser import HTMLParser

import poptorch
import popxl
import pytest
import torch
import zygote
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core.reports import data


class Chain(torch.nn.Module):
    def __init__(self, ipus=1, name="layer"):
        super().__init__()
        self.ipus = ipus
        for i in range(4):
            self.add_module(f"{name}{i}", torch.nn.Linear(32, 32))

    def forward(self, x, target=None):
        for i, layer in enumerate(self.children()):
            poptorch.Block.start(f"b{i}", ipu_id=i * self.ipus // 4)
            x = torch.tanh(layer(x))
        return x if target is None else torch.nn.functional.mse_loss(x, target)


def trained(strategy=None, ipus=2, micro_batches=4, **names):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(micro_batches)
    options.setExecutionStrategy(strategy or poptorch.PipelinedExecution())
    model = Chain(ipus, **names)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = poptorch.trainingModel(model, options, optimizer)
    x = torch.randn(8 * micro_batches, 32)
    made.compile(x, x)
    return made


def saved(figure):
    """Returns it as a PNG, by the canvas that needs no display."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
    return file.getvalue()


def test_a_schedule_has_a_cell_for_each_piece_of_work():
    model = trained()
    figure = model.plot_schedule(micro_batches=4)
    made, axes = model.schedule(4), figure.axes[0]
    bars = {}
    for container in axes.containers:
        label = container.get_label()
        bars[label] = bars.get(label, 0) + len(container.patches)
    wanted = {"forward": 0, "backward": 0}
    for cell in made["cells"]:
        wanted["backward" if cell["backward"] else "forward"] += 1
    assert bars == wanted
    numbers = sorted(text.get_text() for text in axes.texts)
    assert numbers == sorted(str(cell["micro_batch"]) for cell in made["cells"])
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "IPU 0\nb0 … b1",
        "IPU 1\nb2 … b3",
    ]
    assert len(axes.get_xticks()) == made["steps"]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == wanted.keys()
    saved(figure)


def test_transfers_stand_below_the_work_of_phases():
    phases = (poptorch.Phase(f"b{i}") for i in range(4))
    figure = trained(poptorch.SerialPhasedExecution(*phases), ipus=1).plot_schedule(2)
    labels = {container.get_label() for container in figure.axes[0].containers}
    assert labels == {"forward", "backward", "from Streaming Memory", "to Streaming Memory"}
    assert figure.axes[0].get_xlabel() == "phase"
    saved(figure)


@pytest.mark.shared
def test_memory_is_stacked_up_to_what_the_report_says():
    model = trained()
    figure = model.plot_memory()
    ipus = data.make(wrapper_state(model).compiled.executable, {})["memory"]["ipus"]
    assert len(figure.axes) == 2
    for axes, ipu in zip(figure.axes, ipus, strict=True):
        highest = max(
            path.vertices[:, 1].max()
            for collection in axes.collections
            for path in collection.get_paths()
            if len(path.vertices)
        )
        assert highest * 2**20 == pytest.approx(ipu["needed"] - ipu["peak"]["fragmentation"])
        assert "needs" in axes.get_title(loc="left") and "of 897 MiB" in axes.get_title(loc="left")
    saved(figure)


def test_what_does_not_fit_is_drawn_to_scale(monkeypatch):
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")
    options = poptorch.Options().showCompilationProgressBar(False).useIpuModel(True)
    options.Emulator.memoryLimit("off")
    model = poptorch.inferenceModel(torch.nn.Linear(1_000, 1_000), options)
    model.compile(torch.randn(2, 1_000))
    (axes,) = model.plot_memory().axes
    (ipu,) = model.report()["ipus"]
    assert ipu["needed_bytes"] > ipu["capacity_bytes"]
    assert axes.get_title(loc="left").startswith("IPU 0 does not fit: needs ")
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert line.get_ydata()[0] * 2**20 == pytest.approx(ipu["capacity_bytes"])
    assert axes.get_ylim()[1] * 2**20 > ipu["needed_bytes"]


def test_a_session_of_popxl_has_one():
    ir = popxl.Ir()
    with ir.main_graph:
        weight = popxl.variable([1.0, 2.0], name="weight")
        popxl.ops.add_(weight, weight)
    saved(popxl.Session(ir, "ipu_model").plot_memory())


def test_without_matplotlib_it_is_said_what_to_install():
    text = """
    import sys
    sys.modules["matplotlib"] = sys.modules["matplotlib.figure"] = None
    import poptorch, torch
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    model.compile(torch.randn(1, 2))
    for plot in (model.plot_schedule, model.plot_memory):
        try:
            plot()
        except poptorch.Error as error:
            assert "pip install matplotlib" in error.message
        else:
            raise SystemExit("it was drawn")
    """
    zygote.run([sys.executable, "-c", textwrap.dedent(text)], check=True)


def test_what_is_not_compiled_has_none():
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    for plot in (model.plot_schedule, model.plot_memory):
        with pytest.raises(poptorch.Error, match="Model has not been compiled"):
            plot()


class Cells(HTMLParser):
    """Collects the texts of a page, and whether its tags match."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.open, self.tags = [], [], set()
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, _attributes):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "pre"}


def test_a_notebook_shows_a_compiled_model_as_a_table():
    model = Chain()
    wrapped = poptorch.inferenceModel(model, poptorch.Options().modelName("<b>small & fast"))
    assert wrapped._repr_html_() is None
    assert "(layer0): Linear(" in repr(wrapped)
    wrapped.compile(torch.randn(2, 32))
    shown = Cells(wrapped._repr_html_())
    assert shown.tags <= TAGS
    assert any("<b>small & fast for inference" in text for text in shown.texts)
    assert {"IPU", "IPU 0", "memory", "compute", "waiting"} <= set(shown.texts)
    assert "(layer0): Linear(" in repr(wrapped) and "(layer0): Linear(" in repr(model)
    assert not hasattr(model, "_repr_html_")


def test_a_notebook_shows_plans():
    plan = poptorch.plan(torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4))),
                         torch.randn(2, 8), num_ipus=2, training=False)  # fmt: skip
    shown = Cells(plan._repr_html_())
    assert shown.tags <= TAGS
    assert set(plan._rows()[1]) <= set(shown.texts)
    assert plan.lines[0] in "".join(shown.texts)
    assert str(plan).startswith("IPU  begins at")


def test_a_notebook_shows_explanations():
    class Sorting(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svd(torch.relu(x)).S

    explanation = poptorch.explain(Sorting(), torch.randn(4, 4))
    page = explanation._repr_html_()
    shown = Cells(page)
    assert shown.tags <= TAGS
    assert {"op", "module", "the model (Sorting)"} <= set(shown.texts)
    for refused in explanation.refusals:
        assert refused.name in shown.texts and refused.reason in "".join(shown.texts)
