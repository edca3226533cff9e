import subprocess
import sys

PROGRAM = """
import resource, sys
from prospect.columns.process import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
import numpy
for _ in range(20):
    numpy.ones(1 << 20)
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(choice):
    line = [sys.executable, "-c", PROGRAM, choice]
    kept, count = subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()
    return kept == "1", int(count)


def test_memory_that_is_freed_serves_the_next_array_without_new_pages():
    kept, fewer = faults("keep")
    _, more = faults("do not")
    assert kept
    assert fewer < more
