"""Asks a server at a Unix socket five times, which sleeps before it answers: wall_client.py SOCKET.

As wall_client.py SOCKET serve it is that server.
"""

import socket
import sys
import time

SLEEP_S = 0.03
at = socket.socket(socket.AF_UNIX)
if sys.argv[2:]:
    at.bind(sys.argv[1])
    at.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    asking, _ = at.accept()
    while asking.recv(1):
        time.sleep(SLEEP_S)
        asking.send(b"a")
else:
    at.connect(sys.argv[1])
    for _ in range(5):
        at.send(b"q")
        at.recv(1)
    sys.stdout.write("{}\n")
