"""A program with a thread that spins, and one that starts a shell, `starts-late`, ever again."""

from __future__ import annotations

# It runs in a directory with `starts-late`, and says the number of the thread that starts that.
STARTER = """
import subprocess, threading
COUNT = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"
def spin():
    while True:
        sum(range(1000))
def start():
    while True:
        subprocess.run(["./starts-late", "-c", COUNT])
threading.Thread(target=spin, daemon=True).start()
starter = threading.Thread(target=start)
starter.start()
print(starter.native_id, flush=True)
starter.join()
"""
