"""Times and durations of a run's transfers."""

from poptorch._impl.wrapper.compiled_model import Compiled

Latency = tuple[float, float, float]
_COUNTERS = ("input", "input_complete", "output", "output_complete")


def counters(compiled: Compiled | None) -> dict[str, list[list[float]]]:
    """Returns the times of each step by counter and tensor: see getPerfCounters()."""
    if compiled is None or not compiled.device.runs:
        return {name: [[]] for name in _COUNTERS}
    executable = compiled.executable
    inputs = len(executable.input_types())
    outputs = sum(isinstance(source, int) for source in executable.outputs)
    told = not compiled.options.synthetic_data  # synthetic data are not transferred
    times = [executable.transfer_times(i) if told else [] for i in range(inputs + outputs)]
    by_counter = [times[:inputs], times[:inputs], times[inputs:], times[inputs:]]
    return {
        name: [[step[i % 2] for step in tensor] for tensor in tensors]
        for i, (name, tensors) in enumerate(zip(_COUNTERS, by_counter, strict=True))
    }


def latency(compiled: Compiled | None, first: str, last: str) -> Latency:
    """Returns (min, max, mean) seconds of a step between two counters."""
    found = counters(compiled)
    outputs = len(found["output"][0]) if found["output"] else 0
    if not outputs or not found["input"] or not found["input"][0]:
        return 0.0, 0.0, 0.0
    groups = {
        name: _grouped(found[name], outputs, max if "complete" in name else min)
        for name in _COUNTERS
    }
    spans = [max(b - a, 0.0) for a, b in zip(groups[first], groups[last], strict=True)]
    return min(spans), max(spans), sum(spans) / len(spans)


def _grouped(tensors: list[list[float]], outputs: int, choose) -> list[float]:
    """Returns, for each output step, the first or last time among its steps of all tensors."""
    found = []
    for k in range(outputs):
        times = []
        for steps in tensors:
            size = max(1, len(steps) // outputs)
            times += steps[k * size : (k + 1) * size]
        found.append(choose(times))
    return found
