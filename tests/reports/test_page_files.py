"""Tests the files of pages, without a browser."""

import hashlib
import json
from importlib import resources

import jsonschema
import made_data
import pytest
from poptorch_core.reports import page


@pytest.mark.shared
def test_made_data_has_the_form_of_reports():
    schema = resources.files("poptorch_core.reports") / "report.schema.json"
    jsonschema.validate(made_data.make(), json.loads(schema.read_text()))


def test_the_same_data_gives_the_same_file():
    assert page.html(made_data.make()) == page.html(made_data.make())


def test_the_chart_library_is_the_pinned_one():
    folder = resources.files("poptorch_core.reports") / "assets" / "echarts"
    pinned = json.loads((folder / "pinned.json").read_text())
    library = (folder / "echarts.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == pinned["sha256"]
    assert f'.version="{pinned["version"]}"'.encode() in library
    assert b"</script" not in library
    for licence in pinned["licences"]:
        assert (folder / licence).read_text().strip()
