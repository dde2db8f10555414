"""Makes archives in the format of `ar`."""

from collections.abc import Mapping

_MAGIC, _END = b"!<arch>\n", b"`\n"


def packed(members: Mapping[str, bytes]) -> bytes:
    """Returns an archive in the common format of System V and GNU.

    A header of 60 bytes is before each member, which begins at an even offset. Dates and owners
    are 0.

    Args:
        members: The data by name. Names have at most 15 characters.
    """
    parts = [_MAGIC]
    for name, data in members.items():
        header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}"
        parts += [header.encode(), _END, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)
