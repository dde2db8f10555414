"""Sets where tests write reports, and reads them."""

import json

import poptorch


def data_in(folder):
    return json.loads((folder / "report.json").read_text())


def profiled(folder, **keywords):
    return poptorch.Options(**keywords).enableProfiling(str(folder))
