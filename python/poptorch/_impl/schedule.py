"""The schedule of a compiled model as data, and drawn as the guide's figures are."""

from collections import Counter, defaultdict

# In a drawing, of a transfer: letters, then how many, or of which micro-batch.
_LETTERS = {"load": "L", "store": "S", "in": "<", "out": ">"}


def describe(timeline: dict, report: dict, *, strategy: str, a_round: int, io_tiles: int) -> dict:
    """Puts each piece of work and each transfer (see Executable.timeline) into a step.

    Pipelined, stage s of micro-batch m works in step m + s of its round; a round is `a_round`
    micro-batches (one weight update, or all iterations of inference). Otherwise one micro-batch
    follows the other: in phases a step is a phase, else forward through the stages and back.

    Gives {"ipus", "idle_ipus", "stages", "blocks", "phases", "steps", "cells", "transfers",
    "streams", "io_tiles", "bubbles", "bottleneck"}: cells and transfers are the timeline's with
    their "step", blocks the names of what each IPU runs, phases the numbers of phases by step (none
    without phases), streams what transfers with the host may overlap with, bubbles the share of
    steps in which IPUs do nothing, bottleneck the stage with the most cycles a micro-batch.
    """
    work = timeline["cells"]
    stages = 1 + max((cell["stage"] for cell in work), default=0)
    phased = "phased" in strategy
    if strategy == "pipelined":
        steps = [
            cell["micro_batch"] // a_round * (a_round + stages - 1)
            + cell["micro_batch"] % a_round
            + cell["stage"]
            for cell in work
        ]
        phases = []
    else:
        moves = [move for move in timeline["transfers"] if move["kind"] in ("load", "store")]
        key_of = _phase_order if phased else _sharded_order
        keys = sorted({key_of(item, stages) for item in [*work, *moves]})
        order = {key: step for step, key in enumerate(keys)}
        steps = [order[key_of(cell, stages)] for cell in work]
        phases = [phase for _, phase in keys] if phased else []
    cells = [{**cell, "step": step} for cell, step in zip(work, steps, strict=True)]
    overlaps = {stream["name"]: stream["overlap"] for stream in report["streams"]}
    transfers = [
        {**move, "step": _beside(move, cells, overlaps[move["name"]], a_round)}
        if move["kind"] in ("in", "out")
        else {**move, "step": order[key_of(move, stages)]}
        for move in timeline["transfers"]
    ]
    count = 1 + max((item["step"] for item in [*cells, *transfers]), default=0)
    ipus = len(report["ipus"])
    busy = len({(cell["ipu"], cell["step"]) for cell in cells})
    return {
        "ipus": ipus,
        "idle_ipus": report["idle_ipus"],
        "stages": stages,
        "blocks": _blocks_by_ipu(report["stages"], ipus),
        "phases": phases,
        "steps": count,
        "cells": cells,
        "transfers": transfers,
        "streams": report["streams"],
        "io_tiles": io_tiles,
        "bubbles": 1 - busy / (ipus * count),
        "bottleneck": _bottleneck(work),
    }


def _blocks_by_ipu(stages: list[dict], ipus: int) -> list[list[str]]:
    names: list[dict[str, None]] = [{} for _ in range(ipus)]  # in their order
    for stage in stages:
        names[stage["ipu"]].update(dict.fromkeys(stage["blocks"]))
    return [list(blocks) for blocks in names]


def _phase_order(item: dict, _stages: int) -> tuple[int, int]:
    return item["micro_batch"], item["phase"]


def _sharded_order(cell: dict, stages: int) -> tuple[int, int]:
    stage = 2 * (stages - 1) - cell["stage"] if cell["backward"] else cell["stage"]
    return cell["micro_batch"], stage


def _beside(move: dict, cells: list[dict], overlap: str, a_round: int) -> int:
    """The step of a host transfer that overlaps: with the micro-batch before, or behind."""
    mine = move["micro_batch"]
    other = mine - 1 if move["kind"] == "in" else mine + 1
    same_loop = overlap == "device_iteration_loop" or mine // a_round == other // a_round
    for micro_batch in (other, mine) if same_loop else (mine,):
        steps = [
            cell["step"]
            for cell in cells
            if cell["ipu"] == move["ipu"] and cell["micro_batch"] == micro_batch
        ]
        if steps:
            last = move["kind"] == "out" and micro_batch == mine
            return max(steps) if last else min(steps)
    return 0


def _bottleneck(work: list[dict]) -> int:
    cycles: defaultdict[tuple[int, int], int] = defaultdict(int)
    for cell in work:
        cycles[cell["stage"], cell["micro_batch"]] += cell["cycles"]
    return max(cycles, key=cycles.__getitem__, default=(0, 0))[0]


def draw(schedule: dict) -> str:
    """IPUs down, steps across; in the cells, F and B of a micro-batch, or its number alone.

    Below an IPU that transfers anything (see describe), its transfers: how many loads (L) and
    stores (S), inputs (<) and outputs (>) by micro-batch; ~ before those on IO tiles.
    """
    steps = range(schedule["steps"])
    lines = [("step", [str(step) for step in steps])]
    if schedule["phases"]:
        lines.append(("phase", [str(phase) for phase in schedule["phases"]]))
    moves = _transfer_rows(schedule)
    for ipu, row in enumerate(_work_rows(schedule)):
        lines.append((f"IPU {ipu}", row))
        if ipu in moves:
            lines.append((f"I/O {ipu}", moves[ipu]))
    lines += [("idle", [""] * len(steps))] * schedule["idle_ipus"]
    width = max(len(text) for _, row in lines for text in row) + 1
    drawn = [
        name.ljust(7) + "".join((text or ".").ljust(width) for text in row).rstrip()
        for name, row in lines
    ]
    return "\n".join([*drawn, *_legend(schedule)])


def _work_rows(schedule: dict) -> list[list[str]]:
    rows = [[""] * schedule["steps"] for _ in range(schedule["ipus"])]
    kinds = defaultdict(set)  # by place, in the order of the IPU's work
    for cell in schedule["cells"]:
        place = cell["ipu"], cell["step"], cell["stage"], cell["micro_batch"]
        kinds[place].add("B" if cell["backward"] else "F")
    trains = any(cell["backward"] for cell in schedule["cells"])
    for (ipu, step, _, micro_batch), kind in kinds.items():
        letters = "".join(letter for letter in "FB" if letter in kind) if trains else ""
        rows[ipu][step] += f"{letters}{micro_batch}"
    return rows


def _transfer_rows(schedule: dict) -> dict[int, list[str]]:
    counts: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)  # by IPU and step
    for move in schedule["transfers"]:
        text = "~" * move["io_tiles"] + _LETTERS[move["kind"]]
        if move["kind"] in ("in", "out"):
            text += str(move["micro_batch"])
        counts[move["ipu"], move["step"]][text] += 1
    rows: defaultdict[int, list[str]] = defaultdict(lambda: [""] * schedule["steps"])
    for (ipu, step), texts in counts.items():
        for text, count in texts.items():
            rows[ipu][step] += text if text[-1].isdigit() else f"{text}{count}"
    return rows


def _legend(schedule: dict) -> list[str]:
    lines = [
        f"{schedule['stages']} stages, bubbles {schedule['bubbles']:.0%}, "
        f"slowest stage {schedule['bottleneck']}"
    ]
    for ipu, blocks in enumerate(schedule["blocks"]):
        if blocks:
            lines.append(f"IPU {ipu} runs block{'s' * (len(blocks) > 1)} {', '.join(blocks)}")
    if schedule["io_tiles"]:
        lines.append(f"{schedule['io_tiles']} IO tiles an IPU; ~ transfers through them")
    for stream in schedule["streams"]:
        if stream["overlap"] != "none":
            what = "input" if stream["to_device"] else "output"
            loop = stream["overlap"].replace("_", " ")
            never = "" if stream["overlaps"] else ", which has a single round"
            lines.append(f"{what} {stream['name']} overlaps with the {loop}{never}")
    return lines
