"""Reports of models of every kind, and of many ops, are drawn in a browser."""

import browsing
import made_data
import pytest
import reported
import torch
from poptorch_core.reports import data as report_data

pytestmark = pytest.mark.usefixtures("as_before")


# Returns how many pixels of the lanes of the first and the last IPU are coloured, over all layers.
LANES = """
const layers = [...document.querySelectorAll(".chart canvas")].map((layer) => {
  const { width, height } = layer;
  return [width, layer.getContext("2d").getImageData(0, 0, width, height).data];
});
const count = (from, to) => {
  let sum = 0;
  for (const [width, data] of layers) {
    for (let i = 4 * width * from; i < 4 * width * to; i += 4) {
      const [red, green, blue, solid] = data.subarray(i, i + 4);
      sum += solid > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
    }
  }
  return sum;
};
const height = document.querySelector(".chart").clientHeight;
return [count(8, 48), count(height - 102, height - 66)];
"""


@pytest.mark.shared
def test_all_lanes_are_drawn_at_once(browser, folder):
    file = browsing.write(folder, "lanes", made_data.make(ops=3200, events=30_000, ipus=16))
    browser.open(file, "execution")
    first, last = browser.ask(LANES)
    assert 0.5 < last / first < 2


@pytest.mark.shared
def test_a_model_without_work_says_so(browser, folder):
    class Same(torch.nn.Module):
        def forward(self, x):
            return x

    data = report_data.make(
        reported.executable_of(reported.inferred(reported.options(), Same())), {}
    )
    file = browsing.write(folder, "nothing", data)
    browser.open(file, "graph")
    assert "No op of a module takes any cycles." in browser.text()
    assert "several" not in browser.text()
    browser.go("memory")
    assert "1 tensor of the arena" in browser.text()


@pytest.fixture(scope="module")
def large(folder):
    """50,000 ops and 200,000 events."""
    return browsing.write(folder, "large", made_data.make(ops=50_000, events=200_000))


@pytest.mark.shared
def test_large_reports_are_small_files_that_are_painted_at_once(browser, large):
    assert large.stat().st_size < 15e6
    paints = []
    for _ in range(3):
        browser.open(large)
        paints += browser.ask(
            "return performance.getEntriesByName('first-contentful-paint')"
            ".map((entry) => entry.startTime)"
        )
    assert min(paints) < 2000, paints


@pytest.mark.shared
@pytest.mark.parametrize("name", [*browsing.PAGES[1:], "graph?view=ops&op=49000"])
def test_pages_of_large_reports_are_drawn(browser, large, name):
    browser.open(large, name)
    assert all(browser.drawn())


MODELS = (
    *(reported.pipelined, reported.io_tiles, reported.serially_phased, reported.off_chip),
    *(reported.many_rounds, reported.popxl_loops, reported.from_text),
)


@pytest.mark.shared
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_pages_of_models_are_drawn(browser, folder, model):
    data = report_data.make(reported.executable_of(model()), {"name": model.__name__})
    file = browsing.write(folder, model.__name__, data, data)
    for name in [*browsing.PAGES, "graph?view=placement", "graph?view=ops&op=1"]:
        browser.open(file, name)
        assert all(browser.drawn()), name
        assert not browser.of(".problem:not([hidden])"), name


@pytest.mark.shared
def test_io_tiles_have_lanes_and_memory_of_their_own(browser, folder):
    data = report_data.make(reported.executable_of(reported.io_tiles()), {"name": "io"})
    file = browsing.write(folder, "io", data)
    browser.open(file, "execution?event=0")
    assert f"on {len(data['execution']['lanes'])} lanes" in browser.text()
    browser.go("memory")
    browser.until(lambda: browser.of(".rows .row"))
    groups = browser.of("[aria-label='Groups of tiles'] .rows .row")
    shown = [row.text.split("\n")[1] for row in groups]
    assert shown == ["1,440 Compute tiles", "32 I/O tiles"] * len(data["memory"]["ipus"])
    groups[1].click()
    browser.until(lambda: "tiles=io" in browser.ask("return location.hash"))
    browser.wait()
    assert "Transfers" in {cell.text for cell in browser.of(".rows .cell")}
