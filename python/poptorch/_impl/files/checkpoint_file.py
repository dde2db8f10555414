"""The file of a checkpoint: plain data written by torch.save, with a digest as seal.

The seal is the comment of the zip archive, so torch.load(weights_only=True) can read the file, too.
Reading a file executes no code, and returns the whole content or raises an error. The digest
detects damage, not forgery: anyone who can write the file can compute the digest.
"""

import collections
import enum
import hashlib
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch
from poptorch._impl.data import host_rng
from poptorch._impl.inspection import progress
from poptorch.options import Options
from poptorch_core import Error
from poptorch_core.whole_files import write_whole

VERSION = 1
_SEAL = "poptorch checkpoint {:04} blake2b {}"
_SEALED = re.compile(rb"poptorch checkpoint (\d{4}) blake2b ([0-9a-f]{64})")
_SIZE = len(_SEAL.format(VERSION, "0" * 64))
_ZIP = b"PK\x03\x04"
_BLOCK = 1 << 20
_NUMBERS: tuple[Any, ...] = (bool, int, float, complex, str, bytes)


def plain(value: Any, name: str) -> Any:
    """Converts a value to tensors, numbers, texts, and lists, tuples and dicts of these.

    name: its name in messages. Raises poptorch.Error for parts of other types.
    """
    try:
        return _plain(value, name)
    except RecursionError:
        raise Error(
            f"[checkpoint] {name} contains itself, which a checkpoint cannot store. Remove the "
            "cycle."
        ) from None


def _plain(value: Any, name: str) -> Any:
    if value is None or type(value) in _NUMBERS or isinstance(value, torch.dtype):
        return value
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return _plain_tensor(value)
    if isinstance(value, collections.Counter):  # torch's schedulers need it
        return collections.Counter(value)
    if isinstance(value, dict):
        return {_plain(key, f"a key of {name}"): _plain(part, f"{name}[{key!r}]")
                for key, part in value.items()}  # fmt: skip
    if isinstance(value, (list, tuple)):
        parts = [_plain(part, f"{name}[{i}]") for i, part in enumerate(value)]
        return parts if isinstance(value, list) else tuple(parts)
    numpy = host_rng.numpy
    if numpy is not None and isinstance(value, numpy.generic) and hasattr(value, "item"):
        return _plain(value.item(), name)
    if not isinstance(value, enum.Enum):
        for kind in _NUMBERS:
            if isinstance(value, kind):
                return kind(value)
    what = type(value).__name__
    raise Error(
        f"[checkpoint] {name} is of type {what}, which a checkpoint does not store: it stores "
        "tensors, numbers, texts, and lists, tuples and dicts of these. Convert it, or leave it "
        "out."
    )


def _plain_tensor(value: torch.Tensor) -> torch.Tensor:
    """Returns a plain tensor on the host that owns only the memory it needs."""
    with torch.no_grad():
        made = value.detach().cpu()
    if type(made) is not torch.Tensor:
        made = made.as_subclass(torch.Tensor)
    return made if made.untyped_storage().nbytes() == made.nbytes else made.clone()


def write(path: str | os.PathLike, content: dict[str, Any], options: Options | None = None) -> None:
    """Writes plain data atomically: see write_whole(). options: for the progress bar."""

    def fill(stream: BinaryIO) -> None:
        sealing = _Sealing(stream, told)
        try:
            torch.save(content, cast(IO[bytes], sealing))
        except RuntimeError:  # torch replaces an exception of the stream by this
            if sealing.error is None:
                raise
        sealing.seal()

    title = f"Saving {Path(os.fspath(path)).name}"
    with progress.of_bytes(title, lambda: _size(content), options) as told:
        write_whole(path, fill, "checkpoint")


def _size(value: Any) -> int:
    """Returns the bytes of all tensors in a value."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(_size(part) for part in value.values())
    return sum(_size(part) for part in value) if isinstance(value, (list, tuple)) else 0


class _Sealing:
    """A stream that writes a zip archive with the seal as its comment.

    An archive ends with two bytes for the size of its comment, 0. They are held back and replaced.
    error: an exception during the write, Ctrl-C for example; seal() raises it.
    told: a function that gets the number of bytes of each part.
    """

    def __init__(self, stream: BinaryIO, told: Callable[[int], object]) -> None:
        self._stream, self._last, self._told = stream, b"", told
        self.error: BaseException | None = None
        self._digest = hashlib.blake2b(digest_size=32)

    def write(self, data: Any) -> int:
        """Writes a part of the archive."""
        try:
            self._take(memoryview(data).cast("B"))
        except BaseException as error:
            self.error = self.error or error
        return memoryview(data).nbytes

    def _take(self, view: memoryview) -> None:
        if len(view) >= 2:
            self._put(self._last)
            self._put(view[:-2])
            self._last = bytes(view[-2:])
        else:
            held = self._last + bytes(view)
            self._put(held[:-2])
            self._last = held[-2:]

    def flush(self) -> None:
        """Does nothing; torch calls it. The creator of the wrapped stream flushes that."""

    def seal(self) -> None:
        """Writes the seal after the complete archive."""
        if self.error is not None:
            raise self.error
        if self._last != b"\0\0":
            raise AssertionError("torch.save has written a comment into the archive")
        self._put(_SIZE.to_bytes(2, "little"))
        self._stream.write(_SEAL.format(VERSION, self._digest.hexdigest()).encode())

    def _put(self, data: Any) -> None:
        self._digest.update(data)
        self._stream.write(data)
        self._told(len(data))


def read(path: str | os.PathLike, options: Options | None = None) -> dict[str, Any]:
    """Returns the content of a file that write() has written. options: for the progress bar.

    Raises poptorch.Error for a file that is unreadable, truncated, damaged, of another version, or
    not a checkpoint.
    """
    place = Path(os.fspath(path))
    try:
        # O_NONBLOCK: does not wait for the writer of a pipe.
        file = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise Error(f"[checkpoint] {str(place)!r} is not a regular file. Name a checkpoint.")
        with open(file, "rb") as stream:
            return _content(stream, place, options)
    except OSError as error:
        raise Error(
            f"[checkpoint] {str(place)!r} cannot be read: {error.strerror or error}. Name a "
            "checkpoint that poptorch.save_checkpoint has written."
        ) from None


def _content(stream: BinaryIO, place: Path, options: Options | None) -> dict[str, Any]:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _SIZE))
    seal = _SEALED.fullmatch(stream.read())
    stream.seek(0)
    if seal is None:
        raise Error(f"[checkpoint] {str(place)!r} {_what_it_is(stream, size)}")
    if int(seal[1]) != VERSION:
        raise Error(
            f"[checkpoint] {str(place)!r} has format {int(seal[1])}, and this version of poptorch "
            f"reads format {VERSION}. Use the version that wrote it."
        )
    digest, left = hashlib.blake2b(digest_size=32), size - _SIZE
    with progress.of_bytes(f"Checking {place.name}", lambda: size, options) as told:
        while left > 0 and (block := stream.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
            told(len(block))
    if digest.hexdigest().encode() != seal[2]:
        raise Error(
            f"[checkpoint] {str(place)!r} is damaged: its digest does not match its content. Use "
            "an earlier checkpoint."
        )
    try:
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:  # compressed data could expand without limit
            stored = all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
        if not stored:
            raise ValueError("compressed")
        stream.seek(0)
        content = torch.load(stream, map_location="cpu", weights_only=True)
        if not isinstance(content, dict):
            raise TypeError(type(content))
        return content
    except Exception:  # unpicklers may raise any exception
        raise Error(
            f"[checkpoint] {str(place)!r} contains more than plain data, so "
            "poptorch.save_checkpoint has not written it. Use a checkpoint of that function."
        ) from None


def _what_it_is(stream: BinaryIO, size: int) -> str:
    """Describes a file without a seal, for messages."""
    if size and stream.read(len(_ZIP)) != _ZIP:
        return "is not a checkpoint. Name a file that poptorch.save_checkpoint has written."
    try:
        zipfile.ZipFile(stream).close()
    except Exception:
        return "is truncated or damaged. Use an earlier checkpoint."
    return (
        "is not a checkpoint of poptorch.save_checkpoint, or its end is damaged. Use torch.load to "
        "read files of torch.save."
    )
