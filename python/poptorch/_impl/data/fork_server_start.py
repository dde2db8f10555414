"""Lets a fork server receive Ctrl-C again. It is the last module that the server imports.

The start of the server blocks the signal: see spawn.py. Signals that arrived since are dropped.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)
