"""The first lines of an agent on the target: they find the relay, and call the agent's `main`.

`main` gets the connection to the relay, which ends with the relay, and the relay's files. Both
start at the same time, each in its own session, and meet at an abstract socket with a random name.
Other users may read the name in arguments of programs, so each side checks the other process's
user. The host sends this source unchanged, and it must run on any Python from 3.6 on. It imports no
module of Prospect before the relay has all of them.
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
    """Run the agent as soon as the relay has its modules and the request."""
    pump = connected(name)
    pid, uid, _ = CREDENTIALS.unpack(
        pump.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    if uid != os.geteuid():
        pump.close()
        sys.exit("prospect: another user's program answers instead of Prospect's")
    import json  # noqa: F401, PLC0415 - every agent needs it; the relay receives the rest meanwhile

    files = array.array("i")
    size = files.itemsize * FILES
    number, messages, _, _ = pump.recvmsg(16, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
    if not number or not messages:
        pump.close()
        sys.exit(NOT_STARTED)
    files.frombytes(messages[0][2][:size])
    # Not by the agent's own descriptor, which its children close.
    sys.path.insert(0, f"/proc/{pid}/fd/{int(number)}")
    sys.exit(__import__(module, fromlist=["main"]).main([pump.detach(), *files]))


def connected(name: str) -> socket.socket:
    """Return the connection to the relay once that listens; exit with the session."""
    deadline = time.monotonic() + WAIT_S
    session = select.poll()
    session.register(1, 0)  # poll() always reports that the reader of standard output is gone
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
