"""Lists the points of faulty_program.py at which POPTORCH_FAULT can strike, by the parts of the
program.

It strikes the last one of two instances that share memory.
"""

POINTS_BY_PART = {
    "joining": ("join:1:meeting", "join:2:meeting", "join:3:meeting", "join:1:memory",
                "join:2:memory"),
    "agreeing": ("join:1:program", "join:2:program", "collective:1:exchange"),
    "running": ("compile:1", "collective:1:run", "collective:2:run", "run:1:0:1", "run:1:100:1",
                "run:2:0:1", "run:3:7:1"),
    "ending": ("copy:2", "save:1", "save:3", "collective:1:host", "collective:2:host"),
}  # fmt: skip
