"""Build three parts at once, then link them. Two parts are short: `long` and `link` are on the way.

With `fixed`, the long part is built as two.
"""

import subprocess
import sys

CODE = """
def {name}(seconds):
    import time
    while time.thread_time() < seconds:
        sum(range(1000))
{name}({seconds})
"""


def start(name, seconds):
    return subprocess.Popen([sys.executable, "-c", CODE.format(name=name, seconds=seconds)])


def build(parts):
    for part in [start(name, seconds) for name, seconds in parts]:
        part.wait()


build(
    [("short", 0.2), ("tall", 0.5), ("wide", 0.5)]
    if "fixed" in sys.argv
    else [("short", 0.1), ("brief", 0.1), ("long", 1.0)]
)
build([("link", 0.7)])
