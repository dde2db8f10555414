"""`python -m poptorch estimate`: estimates the models that a script would run."""

import json
from argparse import Namespace
from unittest import mock

import poptorch
from poptorch._impl.command_line import scripts
from poptorch._impl.inspection import estimate as estimates
from poptorch_core import Error


def estimate(given: Namespace) -> int:
    """Prints the estimates of the models that a script compiles or calls.

    given.json: whether to print JSON. See scripts.run() for the others.
    """
    found: list[estimates.Estimate] = []
    plain = poptorch.estimate

    def noted(*arguments, **keywords):
        made = plain(*arguments, **keywords)
        found.append(made)
        return made

    with mock.patch.object(poptorch, "estimate", noted):
        scripts.run(given, lambda *call: found.append(estimates.of_call(*call)))
    if not found:
        raise Error(
            f"[estimate] {given.script!r} ended without a model. It must call or compile a "
            "wrapper, or call poptorch.estimate()."
        )
    if given.json:
        print(json.dumps([one.to_dict() for one in found], indent=1))
    else:
        print("\n\n".join(map(str, found)))
    return 0
