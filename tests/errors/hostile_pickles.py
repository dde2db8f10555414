"""Pickles that a file of an executable could have instead of its model, with what each must not do.

Many of them name `run`: a call of it means that contents of a file were executed.
"""

import collections
import enum
import os
import pickle
import struct

import torch

CALLS = []


def run(*arguments, **named):
    """Records its call, which must not happen."""
    CALLS.append((arguments, named))
    return {}


class Restored(torch.nn.Module):
    """Has a private __setstate__, which a file may not call."""

    def __setstate__(self, state):
        run(state)


class Called(type(torch.nn.Module)):
    """A metaclass: a call of its class has an effect."""

    def __call__(cls, *arguments):
        run(arguments)


class Plain(torch.nn.Module):
    def forward(self, x):
        return x


class Kind(enum.Enum):
    ONE = 1


class NoModule:
    pass


HERE = __name__.encode()


def name(module, what):
    return b"c" + module.encode() + b"\n" + what.encode() + b"\n"


SENTINEL = b"c" + HERE + b"\nrun\n"


def nested(depth):
    """Returns a tuple of two equal tuples, nested `depth` times: to hash it takes 2^depth steps."""
    return b")" + b"q\x00" + b"h\x00h\x00\x86q\x00" * depth


def storage(section="tensors", which="0", dtype="float32"):
    """Returns a persistent id, as save() writes it."""
    return (
        b"(" + b"X" + struct.pack("<I", len(section)) + section.encode()
        + b"X" + struct.pack("<I", len(which)) + which.encode() + name("torch", dtype) + b"tQ"
    )  # fmt: skip


def number(value):
    return b"I%d\n" % value


def numbers(*values):
    return b"(" + b"".join(number(value) for value in values) + b"t"


def tensor(offset, size, stride, hooks=b"N", source=None):
    return (
        name("torch._utils", "_rebuild_tensor_v2") + b"(" + (source or storage()) + number(offset)
        + numbers(*size) + numbers(*stride) + b"\x89" + hooks + b"tR"
    )  # fmt: skip


def instance(module, kind):
    return b"\x80\x02" + name(module, kind) + b")\x81"


def cases():
    """Returns name → pickle, without its end."""
    plain = instance(__name__, "Plain")
    found = {}
    for module, what in [
        ("os", "system"), ("posix", "system"), ("builtins", "eval"), ("builtins", "exec"),
        ("builtins", "getattr"), ("builtins", "__import__"), ("builtins", "open"),
        ("functools", "partial"), ("importlib", "import_module"), ("operator", "attrgetter"),
        ("subprocess", "Popen"), ("torch", "load"), ("torch", "save"), ("torch", "from_file"),
        ("torch", "compile"), ("torch.nn.functional", "torch.load"), ("torch.hub", "load"),
        ("torch.fx", "GraphModule"), ("torch.jit", "ScriptModule"), ("types", "CodeType"),
        ("not_imported", "Model"), ("..os", "system"), ("os.path", "os.system"),
        ("torch.nn", "Module.__init__.__globals__"), (__name__, "run"), (__name__, "NoModule"),
        ("torch", "os.system"), ("", ""),
    ]:  # fmt: skip
        found[f"call {module}.{what}"] = (
            name(module, what) + b"(" + b"X\x04\x00\x00\x00true" + b"tR"
        )
    found.update({
        "INST": b"(X\x04\x00\x00\x00truei" + HERE + b"\nrun\n",
        "OBJ": b"(" + SENTINEL + b"X\x04\x00\x00\x00trueo",
        "NEWOBJ of no class": b"\x80\x02" + SENTINEL + b")\x81",
        "NEWOBJ with arguments": b"\x80\x02" + name(__name__, "Plain") + b"(K\x01t\x81",
        "NEWOBJ of another class": instance(__name__, "NoModule"),
        "NEWOBJ_EX": b"\x80\x04" + name(__name__, "Plain") + b")}\x92",
        "EXT1": b"\x80\x02\x82\x01",
        "EXT2": b"\x80\x02\x83\x01\x00",
        "EXT4": b"\x80\x02\x84\x01\x00\x00\x00",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93(X\x04\x00\x00\x00truetR",
        "STACK_GLOBAL of numbers": b"\x80\x04K\x01K\x02\x93",
        "a call of a class": name(__name__, "Plain") + b")R",
        "a call of a module's instance": plain + b")R",
        "BUILD with __setstate__": instance(__name__, "Restored") + b"}b",
        "BUILD with slots": plain + b"}X\x01\x00\x00\x00aK\x01s}\x86b",
        "BUILD of a function": name("torch.nn.functional", "relu")
                               + b"}X\x03\x00\x00\x00badK\x01sb",
        "BUILD of a class": name(__name__, "Plain") + b"}X\x07\x00\x00\x00forwardK\x01sb",
        "BUILD of an enum's member": name(__name__, "Kind") + b"(K\x01tR"
                                     + b"}X\x07\x00\x00\x00_value_K\x05sb",
        "BUILD with a key that is not text": plain + b"}K\x01K\x02sb",
        "BUILD of a tensor": tensor(0, (2,), (1,)) + b"}X\x04\x00\x00\x00dataK\x01sb",
        "an enum of a bomb": name(__name__, "Kind") + b"(" + nested(60) + b"tR",
        "a bomb as a key": b"}" + nested(60) + b"K\x01s",
        "a bomb in a set": b"\x80\x04\x8f(" + nested(60) + b"\x90",
        "a bomb in a frozenset": b"\x80\x04(" + nested(60) + b"\x91",
        "a bomb in an OrderedDict": name("collections", "OrderedDict") + b"((" + nested(60)
                                    + b"K\x01tltR",
        "a bomb as a tensor's name": b"(X\x07\x00\x00\x00tensors" + nested(60)
                                     + name("torch", "float32") + b"tQ",
        "a default factory": name("collections", "defaultdict") + b"(" + SENTINEL + b"tR",
        "a persistent id that is a number": b"K\x07Q",
        "a persistent id that is a list": b"(]K\x01K\x02tQ",
        "a persistent id of text": b"Ptensors\n",
        "a tensor that is not there": storage(which="99"),
        "a section that is not there": storage(section="about"),
        "a dtype that is none": b"(X\x07\x00\x00\x00tensorsX\x01\x00\x00\x000K\x01tQ",
        "a huge text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"abc",
        "huge bytes": b"\x80\x04\x8e" + struct.pack("<Q", (1 << 64) - 1) + b"abc",
        "huge bytes to write": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc",
        "a huge number": b"\x80\x02\x8b\xff\xff\xff\x7f" + b"abc",
        "a number of many digits": b"L" + b"9" * 100000 + b"L\n",
        "a huge frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"abc",
        "a memo that is not there": b"j\xff\xff\xff\x7f",
        "an empty stack": b"0000",
        "no mark": b"t",
        "appends to a tuple": b")K\x01a",
        "appends to a module": plain + b"K\x01a",
        "items of a module": plain + b"K\x01K\x02s",
        "a tensor with hooks": tensor(0, (2,), (1,), name("collections", "OrderedDict") + b")R"
                                      + b"K\x01" + name("torch", "relu") + b"s"),
        "a tensor of no storage": tensor(0, (2,), (1,), source=b"K\x01"),
        "a tensor beyond its storage": tensor(1 << 40, (2,), (1,)),
        "a tensor before its storage": tensor(-8, (2,), (1,)),
        "a tensor that is larger": tensor(0, (1 << 20, 1 << 20), (1 << 20, 1)),
        "a tensor with strides that leave": tensor(0, (2, 2), (1 << 50, 1)),
        "a tensor with strides backwards": tensor(4, (2,), (-4,)),
        "a tensor with sizes below zero": tensor(0, (-1, -1), (1, 1)),
        "a tensor with more sizes than strides": tensor(0, (2, 1), (1,)),
        "a tensor with many dimensions": tensor(0, (1,) * 3000, (1,) * 3000),
        "a parameter with separate data": name("torch._utils", "_rebuild_parameter_with_state")
            + b"(" + tensor(0, (2,), (1,)) + b"\x89N}X\x04\x00\x00\x00dataK\x01s\x85" + b"tR",
        "a parameter of no tensor": name("torch._utils", "_rebuild_parameter") + b"(K\x01\x89NtR",
        "nothing": b"",
        "no pickle": b"\xff\xff",
        "of a protocol to come": b"\x80\xff",
        "a list": b"]",
        "no model": b"}",
    })  # fmt: skip
    return found


def gadget():
    """Returns pickle's output for an object that requests a call."""

    class Wants:
        def __reduce__(self):
            return os.system, ("true",)

    return pickle.dumps(Wants(), 4)


def counter():
    """Returns a data class of the standard library, but not one that models have."""
    return pickle.dumps(collections.Counter("aab"), 4)
