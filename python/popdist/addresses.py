"""Addresses of this host and of others, and the sockets on which this process listens."""

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
    """Returns the IPv4 addresses of a host; None: those of this host's interfaces."""
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
    """Returns the first address that is in a network, or None."""
    network = ipaddress.ip_network(subnet)
    return next((a for a in addresses if ipaddress.ip_address(a) in network), None)


def towards(host: str, port: int) -> str:
    """Returns the address from which this host reaches another. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((host, port))
        return asked.getsockname()[0]


def listening_files() -> set[int]:
    """Returns the file descriptors of this process's listening sockets."""
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
    """Makes a listening socket drop new connections; existing ones stay open."""
    filters = ctypes.create_string_buffer(_DROP_ALL)
    program = struct.pack("HL", len(_DROP_ALL) // 8, ctypes.addressof(filters))
    with socket.socket(fileno=os.dup(file)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
