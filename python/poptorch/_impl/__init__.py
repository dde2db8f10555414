"""The private half of poptorch. poptorch/__init__.py adds the names that user programs rely on.

wrapper: what trainingModel and inferenceModel return: the executor, its compilations and calls.
options: the table of options, the classes made from it, checks, and parsing of text.
placement: blocks, execution strategies, the placement policy, and the planner.
weights: where the newest values of weights are, their transfer, and groups of replicas.
optimisers: the description of an optimiser for the compiler, its changes, and its state.
trace: the Python side of the tracer. trace/patches: replacements of torch's functions in a trace.
pytree: nested arguments and results.
ops: functions of poptorch.ops that are more than one call of the native module.
data: the data loader: order, worker processes, random numbers, resumable positions.
files: executables, pickled models, checkpoints.
devices: the pool of emulated IPUs.
inspection: reports, explanations, progress, and source lines for messages.
command_line: the commands of `python -m poptorch`.
"""
