"""The schedule of a compiled model as data, and drawn as the guide's figures are."""

from collections import defaultdict


def describe(work: list[dict], *, pipelined: bool, a_round: int) -> dict:
    """Puts each piece of work (see Executable.timeline) into a step.

    Pipelined, stage s of micro-batch m works in step m + s of its round; a round is `a_round`
    micro-batches (one weight update, or all iterations of inference). Otherwise one micro-batch
    follows the other, forward through the stages and back.

    Gives {"ipus", "stages", "steps", "cells", "bubbles", "bottleneck"}: cells are the work with
    their "step", bubbles the share of steps in which IPUs do nothing, bottleneck the stage with the
    most cycles a micro-batch.
    """
    stages = 1 + max((cell["stage"] for cell in work), default=0)
    if pipelined:
        steps = [
            cell["micro_batch"] // a_round * (a_round + stages - 1)
            + cell["micro_batch"] % a_round
            + cell["stage"]
            for cell in work
        ]
    else:
        keys = [_sharded_order(cell, stages) for cell in work]
        order = {key: step for step, key in enumerate(sorted(set(keys)))}
        steps = [order[key] for key in keys]
    cells = [{**cell, "step": step} for cell, step in zip(work, steps, strict=True)]
    count = 1 + max(steps, default=0)
    ipus = 1 + max((cell["ipu"] for cell in work), default=0)
    busy = len({(cell["ipu"], cell["step"]) for cell in cells})
    return {
        "ipus": ipus,
        "stages": stages,
        "steps": count,
        "cells": cells,
        "bubbles": 1 - busy / (ipus * count),
        "bottleneck": _bottleneck(work),
    }


def _sharded_order(cell: dict, stages: int) -> tuple[int, int]:
    stage = 2 * (stages - 1) - cell["stage"] if cell["backward"] else cell["stage"]
    return cell["micro_batch"], stage


def _bottleneck(work: list[dict]) -> int:
    cycles = defaultdict(int)
    for cell in work:
        cycles[cell["stage"], cell["micro_batch"]] += cell["cycles"]
    return max(cycles, key=cycles.get, default=(0, 0))[0]


def draw(schedule: dict) -> str:
    """IPUs down, steps across; in the cells, F and B of a micro-batch, or its number alone."""
    rows = [[""] * schedule["steps"] for _ in range(schedule["ipus"])]
    kinds = defaultdict(set)  # by place, in the order of the IPU's work
    for cell in schedule["cells"]:
        place = cell["ipu"], cell["step"], cell["stage"], cell["micro_batch"]
        kinds[place].add("B" if cell["backward"] else "F")
    trains = any(cell["backward"] for cell in schedule["cells"])
    for (ipu, step, _, micro_batch), kind in kinds.items():
        letters = "".join(letter for letter in "FB" if letter in kind) if trains else ""
        rows[ipu][step] += f"{letters}{micro_batch}"
    width = max((len(text) for row in rows for text in row), default=1) + 1
    lines = ["step   " + "".join(str(step).ljust(width) for step in range(schedule["steps"]))]
    for ipu, row in enumerate(rows):
        lines.append(f"IPU {ipu:<3}" + "".join((text or ".").ljust(width) for text in row))
    lines.append(
        f"{schedule['stages']} stages, bubbles {schedule['bubbles']:.0%}, "
        f"slowest stage {schedule['bottleneck']}"
    )
    return "\n".join(line.rstrip() for line in lines)
