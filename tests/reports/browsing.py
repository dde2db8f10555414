"""Opens reports in a headless Chromium, and inspects them for tests."""

import contextlib
import json
import os
import shutil
import time

import pytest
from poptorch_core.reports import page
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

PAGES = ("summary", "memory", "execution", "graph", "compile", "compare")
PATIENCE = 60  # seconds for a page to be drawn, on a machine with other work

# Returns whether each visible canvas shows more than one colour.
DRAWN = """
return [...document.querySelectorAll("main canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  return new Set(pixels).size > 3;
});
"""


def write(folder, name, *data):
    """Writes the report of such data, compared with another's."""
    file = folder / f"{name}.html"
    file.write_text(page.html(*data))
    return file


class Browser:
    """Chromium, and the file that it shows."""

    def __init__(self, driver):
        self.driver = driver
        self.file = None

    def open(self, file, target="summary"):
        """Opens a report's page again and waits until it is drawn."""
        self.file = file
        self.driver.get("about:blank")
        self.driver.get(f"file://{file}#{target}")
        self.wait()

    def go(self, target):
        """Follows a link within the open report."""
        self.driver.execute_script("location.hash = arguments[0]", f"#{target}")
        self.until(lambda: self.page() == target.split("?")[0])
        self.wait()

    def page(self):
        return self.ask("return document.querySelector('main .page')?.dataset.page")

    def wait(self):
        busy = "return document.querySelector('main')?.getAttribute('aria-busy')"
        self.until(lambda: self.ask(busy) == "false")

    def until(self, done):
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"still waiting; the log: {self.problems()}"
            time.sleep(0.02)

    def of(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector="main"):
        # In one step, since a page may be redrawn between two steps.
        return self.ask("return document.querySelector(arguments[0]).innerText", selector)

    def ask(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def drawn(self):
        return self.ask(DRAWN)

    def resize(self, width, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, theme):
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def problems(self):
        """Returns messages on the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Returns the addresses requested since the last call."""
        messages = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def opened():
    """Yields a browser, and closes it after the block. In CI it must be installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver) and not os.environ.get("CI"):
        pytest.skip("needs chromium and chromium-driver: tools/install_system_packages.sh has them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
