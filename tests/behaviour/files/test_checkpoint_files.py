"""A damaged, truncated or forged checkpoint file, or a file of another kind, is refused."""

import hashlib
import io
import os
import random
import zipfile

import poptorch
import pytest
import torch
from poptorch._impl.files import checkpoint_file
from poptorch.testing import inject_fault


def refused(file, text=r"\[checkpoint\] '.*x.pt' "):
    model = torch.nn.Linear(2, 1)
    weight = model.weight.clone()
    with pytest.raises(poptorch.Error, match=text):
        poptorch.load_checkpoint(file, model)
    assert torch.equal(model.weight, weight)


@pytest.fixture
def small(tmp_path):
    """Returns the bytes of a checkpoint, and a file for changed copies."""
    poptorch.save_checkpoint(tmp_path / "x.pt", torch.nn.Linear(2, 1))
    return (tmp_path / "x.pt").read_bytes(), tmp_path / "x.pt"


@pytest.mark.signals
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_interrupt_while_torch_writes_is_one(small, number):
    data, file = small
    inject_fault("save", "SIGINT", nth=number)
    with pytest.raises(KeyboardInterrupt):
        poptorch.save_checkpoint(file, torch.nn.Linear(300, 300))
    assert file.read_bytes() == data and os.listdir(file.parent) == [file.name]


def test_every_truncation_is_refused(small):
    data, file = small
    draw = random.Random(1)
    lengths = {0, 1, 3, 4, 21, 22, *range(len(data) - 130, len(data))}
    for length in lengths | set(draw.sample(range(len(data)), 200)):
        file.write_bytes(data[:length])
        refused(file, "is truncated or damaged|is not a checkpoint")


def test_every_flipped_bit_is_refused(small):
    data, file = small
    draw = random.Random(2)
    positions = {*range(40), *range(len(data) - 130, len(data))}
    for position in positions | set(draw.sample(range(len(data)), 200)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << draw.randrange(8)
        file.write_bytes(flipped)
        refused(file, "is damaged|or damaged|its end is damaged|has format|is not a checkp")


def test_what_unpacks_to_more_than_it_is_is_refused(small):
    data, file = small
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    seal = len(b"poptorch checkpoint 0001 blake2b ") + 64
    content = packed.getvalue()[:-2] + seal.to_bytes(2, "little")
    digest = hashlib.blake2b(content, digest_size=32).hexdigest()
    file.write_bytes(content + f"poptorch checkpoint 0001 blake2b {digest}".encode())
    assert zipfile.ZipFile(file).testzip() is None
    refused(file, "contains more than plain data")


class Gadget:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_files_that_are_no_checkpoints(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, file = small
    file.write_bytes(data + b"behind")
    refused(file, "its end is damaged|truncated or damaged")
    file.write_bytes(data.replace(b"checkpoint 0001", b"checkpoint 0002"))
    refused(file, "has format 2, and this version of poptorch reads format 1. Use the version")
    torch.save({"a": 1}, file)
    refused(file, "not a checkpoint of poptorch.save_checkpoint.*Use torch.load to read files")
    file.write_text("a text")
    refused(file, "is not a checkpoint. Name a file that poptorch.save_checkpoint has written")
    for content in ({"a": Gadget()}, [1]):
        checkpoint_file.write(file, content)
        refused(file, "contains more than plain data")
    assert not os.path.exists("executed")
    checkpoint_file.write(file, {"step": 1})
    refused(file, r"does not have the structure of a checkpoint \(KeyError: 'extra'\)")
    refused(tmp_path, "is not a regular file. Name a checkpoint")
    refused(tmp_path / "none.pt", "cannot be read: No such file or directory. Name a checkpoint")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is not a regular file. Name a checkpoint")
