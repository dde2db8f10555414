"""The process that has imported torch and poptorch, and forks for each program: see zygote.py.

`python zygote_server.py DESCRIPTOR` reads from a socket. It ends when the other end closes.
"""

import os
import pickle
import signal
import socket
import struct
import sys

from zygote_program import MOST_FILES, Program, become


def fork_orphan() -> int:
    """Forks twice, and returns the process id of the second fork, or minus an error's number.

    The second fork returns 0 when the first has ended, so that the process which asked to take
    orphans is its parent.
    """
    told, tells = os.pipe()
    waits, goes = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(goes)
        try:
            pid = os.fork()
        except OSError as error:
            pid = -error.errno
        if pid == 0:
            os.read(waits, 1)
            return 0
        os.write(tells, struct.pack("=q", pid))
        os._exit(0)
    (pid,) = struct.unpack("=q", os.read(told, 8))
    os.waitpid(middle, 0)
    for each in (told, tells, waits, goes):
        os.close(each)
    return pid


def serve(connection: socket.socket) -> None:
    """Forks for every program that is asked for."""
    while True:
        header, files, _, _ = socket.recv_fds(connection, 8, MOST_FILES, socket.MSG_WAITALL)
        if len(header) < 8:
            os._exit(0)
        (size,) = struct.unpack("=Q", header)
        body = connection.recv(size, socket.MSG_WAITALL)
        pid = fork_orphan()
        if pid == 0:
            connection.detach()  # its descriptor is closed, and may become another file's
            become(Program(**pickle.loads(body)), files)
        for each in files:
            os.close(each)
        connection.sendall(struct.pack("=q", pid))


if __name__ == "__main__":
    import numpy  # noqa: F401
    import poptorch  # noqa: F401
    import torch
    import torch._dynamo  # noqa: F401 - torch's optimisers import it, which takes two seconds

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])))
