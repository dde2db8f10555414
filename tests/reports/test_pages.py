"""Pages of reports are drawn in a browser, respond to input, and use no network."""

import itertools
import json
import re

import browsing
import made_data
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

HURTFUL = "</script><img src=x onerror=window.hurt=1>"


pytestmark = pytest.mark.usefixtures("as_before")


@pytest.fixture(scope="module")
def report(folder):
    return browsing.write(folder, "report", made_data.make(), made_data.make(slower=2))


@pytest.fixture(scope="module")
def few(folder):
    """Has so few events that each is wide."""
    return browsing.write(folder, "few", made_data.make(ops=16, events=40, ipus=2))


@pytest.mark.shared
@pytest.mark.parametrize("name", browsing.PAGES)
def test_every_page_is_drawn(browser, report, name):
    browser.open(report, name)
    drawn = browser.drawn()
    assert drawn and all(drawn)
    assert browser.page() == name
    assert not browser.of(".problem:not([hidden])")


@pytest.mark.shared
def test_links_open_pages_one_after_the_other(browser, report):
    browser.open(report)
    for name in browsing.PAGES[1:]:
        browser.one(f"nav a[data-page={name}]").click()
        browser.until(lambda name=name: browser.page() == name)
        browser.wait()
        assert all(browser.drawn())
    browser.driver.back()
    browser.until(lambda: browser.page() == "compile")
    browser.wait()


@pytest.mark.shared
def test_nothing_is_asked_of_a_network(browser, report):
    browser.requests()
    for name in browsing.PAGES:
        browser.open(report, name)
    assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in browser.requests())


@pytest.mark.shared
@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("name", [*browsing.PAGES, "graph?view=placement", "graph?view=ops&op=3"])
def test_nothing_is_wider_than_the_window(browser, report, width, name):
    browser.resize(width)
    browser.open(report, name)
    assert browser.ask("return document.documentElement.scrollWidth") <= width


@pytest.mark.shared
def test_heads_of_columns_are_whole(browser, report):
    browser.resize(800)
    for name in ("graph", "graph?view=placement", "graph?view=ops", "compile", "memory"):
        browser.open(report, name)
        cut = """
        return [...document.querySelectorAll(".head button, .head .cell")]
          .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent);
        """
        assert browser.ask(cut) == [], name


@pytest.mark.shared
def test_parts_of_collectives_say_over_which_links_they_go(browser, report):
    browser.open(report, "graph?view=placement")
    cells = [cell.text for cell in browser.of(".rows .cell")]
    links = {
        ("reduce_scatter", "IPU-Links"),
        ("all_reduce", "GW-Links"),
        ("all_gather", "IPU-Links"),
    }
    assert links <= set(itertools.pairwise(cells))


@pytest.mark.shared
def test_the_summary_says_what_bounds_a_run_and_what_to_do(browser, report):
    browser.open(report)
    text = browser.text()
    assert "Bound by computation – 50 % of the IPUs' time" in text
    assert "Stage 2 takes 3.0 times the mean of the stages." in text
    browser.one(".advice a").click()
    browser.until(lambda: browser.page() == "execution")
    browser.wait()


@pytest.mark.shared
def test_clicking_an_op_shows_its_line_and_each_form(browser, report):
    browser.open(report, "graph?view=ops")
    row = browser.of(".rows .row")[5]
    row.click()
    browser.until(lambda: browser.of(".source"))
    assert "made_data.py:" in browser.text(".source .place")
    # The text of the line is shown too if it can be read.
    with open(made_data.__file__) as source:
        lines = [line.strip() for line in source]
    number = int(browser.text(".source .place").rpartition(":")[2])
    assert browser.text(".source pre") == lines[number - 1]
    forms = [form.text for form in browser.of(".form")]
    assert [form.split("\n")[0] for form in forms] == list(made_data.FORMS)
    assert all("@[" in form for form in forms)


@pytest.mark.shared
def test_clicking_an_event_shows_its_line(browser, few):
    browser.open(few, "execution")
    chart = browser.one(".chart")
    ActionChains(browser.driver).move_to_element(chart).move_by_offset(0, -60).click().perform()
    browser.until(lambda: browser.of(".source"))
    assert "made_data.py:" in browser.text(".source")
    assert "cycles from" in browser.text(".facts")


@pytest.mark.shared
def test_the_wheel_and_keys_zoom(browser, report):
    browser.open(report, "execution")
    chart = browser.one(".chart")
    before = browser.ask("return location.hash")
    origin = browser.ask(
        "const box = arguments[0].getBoundingClientRect(); return [box.x, box.y]", chart
    )
    wheel = {"type": "mouseWheel", "x": origin[0] + 500, "y": origin[1] + 60, "deltaX": 0}
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {**wheel, "deltaY": -600})
    browser.until(lambda: "from=" in browser.ask("return location.hash"))
    chart.send_keys("0")
    browser.until(lambda: browser.ask("return location.hash") == before)
    chart.send_keys("+")
    browser.until(lambda: "from=" in browser.ask("return location.hash"))
    chart.send_keys("]")
    browser.until(lambda: browser.of(".source"))


@pytest.mark.shared
def test_clicking_short_events_zooms_in_on_them(browser, report):
    browser.open(report, "execution")
    chart = browser.one(".chart")
    ActionChains(browser.driver).move_to_element(chart).move_by_offset(200, -60).click().perform()
    browser.until(lambda: "from=" in browser.ask("return location.hash"))
    state = dict(re.findall(r"(from|to)=(\d+)", browser.ask("return location.hash")))
    end = made_data.make()["execution"]["shown_cycles"]
    width = browser.ask("return arguments[0].clientWidth", chart)
    pointed = (width / 2 + 200 - 88) / (width - 108) * end
    assert int(state["from"]) < pointed < int(state["to"]) < int(state["from"]) + end / 7


@pytest.mark.shared
def test_the_address_keeps_what_is_shown(browser, report):
    browser.open(report, "execution?from=1000&to=3000&event=4")
    assert "made_data.py:" in browser.text(".source")
    assert "from=1000&to=3000&event=4" in browser.ask("return location.hash")


@pytest.mark.shared
@pytest.mark.parametrize(
    "sought,kind,shown",
    [
        ("layers.3.attention.w0_3", "Tensors", "memory"),
        ("t17", "Tensors", "memory"),
        ("gelu_2", "Ops", "graph"),
        ("layers.5.norm", "Modules", "graph"),
    ],
)
def test_search_finds(browser, report, sought, kind, shown):
    browser.open(report)
    box = browser.one("#search")
    box.send_keys(sought)
    browser.until(lambda: browser.of("#found a"))
    assert kind.upper() in browser.text("#found").upper()
    first = next(a for a in browser.of("#found a") if a.text.split("\n")[0].endswith(sought))
    first.click()
    browser.until(lambda: browser.page() == shown)
    browser.wait()
    assert sought in browser.text() or sought in browser.ask("return decodeURIComponent(location)")
    assert not browser.one("#found").is_displayed()


@pytest.mark.shared
def test_search_goes_by_the_keyboard(browser, report):
    browser.open(report)
    ActionChains(browser.driver).send_keys("/", "gelu_2").perform()
    browser.until(lambda: browser.of("#found a"))
    ActionChains(browser.driver).send_keys(Keys.ARROW_DOWN, Keys.ENTER).perform()
    browser.until(lambda: browser.page() == "graph")
    browser.until(lambda: browser.of(".source"))


@pytest.mark.shared
def test_tables_go_by_the_keyboard(browser, report):
    browser.open(report, "graph?view=ops")
    rows = browser.one(".rows")
    rows.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    browser.until(lambda: browser.of(".source"))
    browser.until(lambda: "op=1" in browser.ask("return location.hash"))
    rows.send_keys(Keys.PAGE_DOWN)
    browser.until(lambda: browser.text(".row.active .cell") == "11")


@pytest.mark.shared
def test_the_module_tree_opens(browser, report):
    browser.open(report, "graph?view=modules&path=decoder.layers.5.norm")
    assert "norm" in browser.text(".row.active")
    assert "decoder" in browser.text(".rows")


@pytest.mark.shared
def test_the_peak_consists_of(browser, report):
    data = made_data.make()
    browser.open(report, "memory?ipu=1")
    peak = data["memory"]["ipus"][1]["peak"]
    assert f"the peak, instruction {peak['instruction']}" in browser.text()
    live = data["memory"]["allocations"]
    rows = zip(live["ipu"], live["first"], live["last"], strict=True)
    count = sum(i == 1 and a <= peak["instruction"] <= b for i, a, b in rows)
    assert f"{count} tensors of the arena" in browser.text()


@pytest.mark.shared
def test_memory_at_any_instruction(browser, report):
    browser.open(report, "memory?ipu=1")
    first = made_data.make()["memory"]["ipus"][1]["peak"]["instruction"] - 10
    box = browser.one("input[type=number]")
    box.send_keys(Keys.CONTROL + "a" + Keys.NULL, str(first), Keys.TAB)
    browser.until(lambda: f"What is live at instruction {first}" in browser.text())
    browser.until(lambda: f"at={first}" in browser.ask("return location.hash"))


@pytest.mark.shared
def test_what_does_not_fit_is_told_with_what_would_make_it(browser, folder):
    file = browsing.write(folder, "overflow", made_data.make(capacity=150 * 1024))
    browser.open(file)
    assert "Does not fit" in browser.text(".figure.bad")
    browser.go("memory")
    text = browser.text(".card.bad")
    assert "IPU 0 does not fit" in text and "too much" in text
    assert "saves 223 KiB – keep the optimiser's state off the chip" in text


@pytest.mark.shared
def test_streaming_memory_is_shown_against_its_capacity(browser, folder):
    data = made_data.make(ops=60, events=300)
    data["memory"]["streaming"] = {"needed": 3 << 30, "capacity": 2 << 30}
    file = browsing.write(folder, "streaming", data)
    browser.open(file)
    assert "Streaming Memory\n150 %\n3.00 GiB of the 2.00 GiB of a replica" in browser.text(
        ".figure.bad"
    )
    browser.go("memory")
    assert "3.00 GiB of 2.00 GiB, 1.00 GiB too much" in browser.text(".card.bad h2")


def test_compare_shows_differences_by_module(browser, report):
    browser.open(report, "compare")
    text = browser.text()
    assert "+3.60 M (+100 %)" in text
    assert len(browser.drawn()) == 1  # memory is the same


@pytest.mark.shared
def test_compare_loads_another_report(browser, folder, few):
    other = folder / "other.json"
    other.write_text(json.dumps(made_data.make(ops=16, events=40, ipus=2, slower=3)))
    browser.open(few, "compare")
    assert "No other report is loaded" in browser.text()
    picker = browser.one("input[type=file]")
    picker.send_keys(str(other))
    browser.until(lambda: "+200 %" in browser.text())
    wrong = folder / "wrong.json"
    wrong.write_text('{"format": "something"}')
    picker.send_keys(str(wrong))
    browser.until(lambda: browser.one(".problem").is_displayed())
    assert 'format is "something", expected "poptorch-report"' in browser.text(".problem")


@pytest.mark.shared
def test_names_are_no_markup(browser, folder):
    data = made_data.make(ops=60, events=300, name=HURTFUL)
    data["model"]["name"] = HURTFUL
    data["options"] = {HURTFUL: HURTFUL}
    data["strings"] = [
        f"/home/{HURTFUL}.py" if text.endswith("made_data.py") else text for text in data["strings"]
    ]
    data["compile"]["passes"][3]["name"] = HURTFUL
    data["advice"][0]["text"] = data["advice"][0]["cure"] = HURTFUL
    file = browsing.write(folder, "hurtful", data, data)
    views = ["graph?view=placement", "graph?view=ops&op=5", "execution?event=9"]
    for name in [*browsing.PAGES, *views]:
        browser.open(file, name)
        assert HURTFUL in browser.text("header")
        for chart in browser.of(".chart"):
            ActionChains(browser.driver).move_to_element(chart).perform()
        assert not browser.of("img")
        assert browser.ask("return window.hurt") is None
    assert HURTFUL in browser.text("main")
    browser.one("#search").send_keys("onerror")
    browser.until(lambda: browser.of("#found a"))
    assert HURTFUL in browser.text("#found")
    assert not browser.of("img")


@pytest.mark.shared
def test_light_and_dark(browser, report):
    back = "return getComputedStyle(document.body).backgroundColor"
    browser.open(report)
    light = browser.ask(back)
    browser.prefer("dark")
    browser.open(report)
    assert browser.ask(back) != light
    browser.one("#theme").click()
    browser.wait()
    assert browser.ask(back) == light
    browser.one("#theme").click()
    browser.wait()
