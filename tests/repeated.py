"""A plugin of pytest that runs each chosen test several times: `-p repeated --repeat N`.

`--repeat-results FOLDER` names the folder for table.json (test → [runs, failures, slowest]) and for
a file with the text of every failure.
"""

import json
import re
from pathlib import Path

import pytest

RUN = re.compile(r"@\d+(?=\[|$)")  # in the id of a test


def pytest_addoption(parser):
    parser.addoption("--repeat", type=int, default=1, help="runs of each test")
    parser.addoption("--repeat-results", type=Path, help="folder of the table and the failures")


@pytest.hookimpl(trylast=True)  # of those that are chosen
def pytest_collection_modifyitems(config, items):
    items[:] = [again(item, run) for item in items for run in range(config.getoption("--repeat"))]


def again(item, run):
    """Returns a copy of the test whose name has the number of its run."""
    return type(item).from_parent(
        item.parent,
        name=f"{item.name}@{run}",
        callspec=getattr(item, "callspec", None),
        callobj=item.obj,
        fixtureinfo=item._fixtureinfo,
        originalname=f"{item.originalname}@{run}",  # the node's id is made of it
    )


def pytest_configure(config):
    folder = config.getoption("--repeat-results")
    if folder and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(folder), "results of repeated tests")


class Results:
    """Collects the reports of all workers."""

    def __init__(self, folder):
        self.folder, self.seconds, self.failed = folder, {}, {}

    def pytest_runtest_logreport(self, report):
        """Collects reports of setup, call and teardown; or of a worker that ended, with neither."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append(report)

    def pytest_sessionfinish(self):
        table = {}
        for name, seconds in self.seconds.items():
            row = table.setdefault(RUN.sub("", name, count=1), [0, 0, 0.0])
            row[:] = row[0] + 1, row[1] + (name in self.failed), max(row[2], seconds)
        (self.folder / "table.json").write_text(json.dumps(dict(sorted(table.items()))))
        for name, reports in self.failed.items():
            text = "\n\n".join(self.text(report) for report in reports)
            file = re.sub(r"[^\w@.-]+", "_", name)[-200:]
            (self.folder / f"{file}.txt").write_text(text)

    @staticmethod
    def text(report):
        parts = [f"{report.nodeid}, {report.when}", report.longreprtext]
        return "\n".join([*parts, *(f"--- {title}\n{body}" for title, body in report.sections)])
