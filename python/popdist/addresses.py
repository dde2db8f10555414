"""Addresses of this host and of others, and what this process listens on."""

import contextlib
import ctypes
import fcntl
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Iterable

_SIOCGIFADDR = 0x8915
_SO_ATTACH_FILTER = 26
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # a packet filter: "return 0"


def addresses_of(host: str | None) -> list[str]:
    """IPv4 addresses of a host; None: of this one's interfaces."""
    if host is not None:
        return socket.gethostbyname_ex(host.rpartition("@")[2])[2]
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return found


def in_subnet(addresses: Iterable[str], subnet: str) -> str | None:
    """The first that is in a network."""
    network = ipaddress.ip_network(subnet)
    return next((a for a in addresses if ipaddress.ip_address(a) in network), None)


def towards(host: str, port: int) -> str:
    """The address of this host that its way to another begins at. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((host, port))
        return asked.getsockname()[0]


def listening_files() -> set[int]:
    """The file descriptors of this process that listen."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another thread has closed it
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as asked:
                if asked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.add(int(name))
    return found


def refuse_strangers(file: int) -> None:
    """From here on nobody can connect to a listening socket; those who are stay."""
    filters = ctypes.create_string_buffer(_DROP_ALL)
    program = struct.pack("HL", len(_DROP_ALL) // 8, ctypes.addressof(filters))
    with socket.socket(fileno=os.dup(file)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
