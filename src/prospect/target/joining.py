"""The first lines of an agent on the target: they find the pump, and call the agent's `main`.

`main` gets the connection to the pump, which ends when the pump does, and the files that the pump
holds. Both begin at the same time, each in its own session, and meet at a socket whose name
the host made up, in the kernel and in no directory. Other users may read the name among the
arguments of programs: each side checks whose process the other is. This source is sent as it is,
and must run on any Python from 3.6 on; it imports no module of Prospect before the pump has all of
it.
"""

import array
import os
import select
import socket
import struct
import sys
import time

WAIT_S = 60
TRY_MS = 5
CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
FILES = 3
NOT_STARTED = 126


def join(name: str, module: str) -> None:
    """Work as soon as the pump has all that is wanted for it."""
    pump = connected(name)
    pid, uid, _ = CREDENTIALS.unpack(
        pump.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    if uid != os.geteuid():
        pump.close()
        sys.exit("prospect: another user's program answers instead of Prospect's")
    import json  # noqa: F401, PLC0415 - what every agent needs, while the pump takes it in

    files = array.array("i")
    size = files.itemsize * FILES
    number, messages, _, _ = pump.recvmsg(16, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
    if not number or not messages:
        pump.close()
        sys.exit(NOT_STARTED)
    files.frombytes(messages[0][2][:size])
    # Not by its own descriptor, which its children close.
    sys.path.insert(0, f"/proc/{pid}/fd/{int(number)}")
    sys.exit(__import__(module, fromlist=["main"]).main([pump.detach(), *files]))


def connected(name: str) -> socket.socket:
    """Return the connection to the pump once that is there; end with the session."""
    deadline = time.monotonic() + WAIT_S
    session = select.poll()
    session.register(1, 0)  # that nobody reads what COMMAND writes is seen anyway
    while True:
        pump = socket.socket(socket.AF_UNIX)
        try:
            pump.connect("\0" + name)
        except OSError:
            pump.close()
        else:
            return pump
        if session.poll(TRY_MS) or time.monotonic() > deadline:
            sys.exit(NOT_STARTED)
