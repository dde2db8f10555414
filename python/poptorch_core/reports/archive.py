"""Archives as `ar` makes and lists them."""

from collections.abc import Mapping

_MAGIC, _END = b"!<arch>\n", b"`\n"


def packed(members: Mapping[str, bytes]) -> bytes:
    """An archive of these members. Names have at most 15 letters; dates and owners are 0.

    The common format of System V and GNU: a header of 60 letters before each member, which begins
    at an even place.
    """
    parts = [_MAGIC]
    for name, data in members.items():
        header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}"
        parts += [header.encode(), _END, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)
