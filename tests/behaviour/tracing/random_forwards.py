"""Random modules whose forward writes attributes, buffers, lists, dicts, inputs and closures.

`Random(seed)` is the same module for the same seed. Its forward runs a list of statements. Each of
them computes a new tensor from the last one, and may write or read what outlives the call.
"""

import random

import torch

SHAPE = (2, 3)


class Statements:
    """The statements that a forward may consist of. Each takes the module and a tensor."""

    def computes(self, module, v):
        return torch.tanh(v) + module.weight

    def writes_attribute(self, module, v):
        module.feature = v * 2
        return v

    def writes_and_reads_attribute(self, module, v):
        module.feature = v + 1
        return module.feature * v

    def reads_attribute(self, module, v):
        return v if module.feature is None else v + module.feature

    def copies_to_constant(self, module, v):
        module.constant.copy_(v.detach())
        return v

    def fills_constant(self, module, v):
        module.mask[0] = 0.5
        return v * module.mask

    def adds_to_constant(self, module, v):
        module.constant += v.detach()
        return v - module.constant

    def writes_buffer(self, module, v):
        module.memory.copy_(v.detach())
        return v + 1

    def adds_to_buffer(self, module, v):
        module.memory += v.detach()
        return v * module.memory

    def reads_buffer(self, module, v):
        return v + module.memory

    def replaces_list(self, module, v):
        module.parts = [v, v * 3]
        return v + module.parts[1]

    def clears_list(self, module, v):
        module.history.clear()
        module.history.append(v)
        return v * 2

    def appends(self, module, v):
        module.log.append(v.detach())
        return v

    def reads_list(self, module, v):
        return v + sum(module.history)

    def sets_entry(self, module, v):
        module.table["last"] = v - 1
        return module.table["last"] * v

    def caches_table(self, module, v):
        if "range" not in module.table:
            module.table["range"] = torch.arange(3.0)
        return v + module.table["range"]

    def writes_input(self, module, v):
        module.given.mul_(0.5)
        return v + module.given

    def writes_closure(self, module, v):
        module.outer["seen"] = v
        return v

    def counts(self, module, v):
        module.calls += 1
        return v

    def uses_count(self, module, v):
        return v * module.calls

    def decides_once(self, module, v):
        module.ready = True
        return v + 1

    def writes_part(self, module, v):
        v = v * 1
        v[0] = v[1] * 2
        return v


_NAMES = [name for name in vars(Statements) if not name.startswith("_")]
# Statements that read what an earlier call may have written are rare: such models are refused.
_RARE = {"reads_attribute", "adds_to_constant", "reads_list", "uses_count"}
_WEIGHTS = [1 if name in _RARE else 12 for name in _NAMES]


class Random(torch.nn.Module):
    """Runs random statements."""

    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        self.names = draw.choices(_NAMES, _WEIGHTS, k=draw.randint(1, 8))
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.nn.Parameter(torch.rand(3, generator=generator))
        self.register_buffer("memory", torch.zeros(SHAPE))
        self.constant, self.mask = torch.ones(SHAPE), torch.ones(SHAPE)
        self.feature, self.parts = None, None
        self.history, self.log, self.table, self.outer = [], [], {}, {}
        self.calls, self.ready = 0, False
        statements, outer = Statements(), self.outer

        def run(module, v):
            for name in self.names:
                v = getattr(statements, name)(module, v)
            outer.setdefault("made", True)
            return v

        self.run = [run]  # in a list: a closure, not a method

    def forward(self, x):
        self.given = x
        v = self.run[0](self, x * self.weight)
        self.given = None
        return v, (v**2).mean()

    def kept(self):
        """Returns what outlives a call besides parameters and buffers, by name."""
        return {
            "constant": self.constant, "mask": self.mask, "feature": self.feature,
            "parts": self.parts, "history": self.history, "log": self.log, "table": self.table,
            "outer": self.outer, "calls": self.calls, "ready": self.ready,
        }  # fmt: skip
