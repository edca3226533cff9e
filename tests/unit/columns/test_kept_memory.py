import subprocess
import sys

KEPT = """
import resource, sys
from prospect.columns.process import keep_freed_memory
kept = sys.argv[1] == "set" and keep_freed_memory()
import numpy
for _ in range(20):
    numpy.ones(1 << 20)
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""
# By default glibc takes 1 MB from the heap after 8 MB were freed, and what stays is in between.
RETURNED = """
import sys
from prospect.columns.process import return_freed_memory
returned = sys.argv[1] == "set" and return_freed_memory()
import numpy
numpy.ones(1 << 20)
columns, stay = [], []
for _ in range(64):
    columns.append(numpy.ones(1 << 17))
    stay.append(numpy.ones(1 << 10))
del columns
rows = open("/proc/self/status").read().splitlines()
print(int(returned), next(int(row.split()[1]) for row in rows if row.startswith("RssAnon:")))
"""


def ran(program, choice):
    line = [sys.executable, "-c", program, choice]
    known, figure = subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()
    return known == "1", int(figure)


def test_memory_that_is_freed_serves_the_next_array_without_new_pages():
    kept, fewer = ran(KEPT, "set")
    _, more = ran(KEPT, "do not")
    assert kept
    assert fewer < more


def test_memory_of_columns_that_are_freed_is_the_kernels_whatever_stays_between_them():
    returned, less_kb = ran(RETURNED, "set")
    _, more_kb = ran(RETURNED, "do not")
    assert returned
    assert less_kb < more_kb - (32 << 10)
