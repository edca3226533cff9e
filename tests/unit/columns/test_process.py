"""Numpy is imported with what makes it fast here, and nobody else inherits that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prospect.columns.process import sorts_slowly

_ZEN_4 = (
    b"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
    b"flags\t\t: f16c fma avx2 avx512f\n"
)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (_ZEN_4, True),
        (_ZEN_4.replace(b" avx512f", b""), False),  # Zen 3
        (_ZEN_4.replace(b" fma", b""), False),  # numpy refuses to enable what is not there
        (_ZEN_4.replace(b": 25", b": 26"), False),  # Zen 5
        (_ZEN_4.replace(b"AuthenticAMD", b"GenuineIntel"), False),
        (_ZEN_4 + b"\nprocessor\t: 1\ncpu family\t: 26\n", True),  # the first one counts
        (b"processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n", False),  # arm64
        (b"vendor_id\t: AuthenticAMD\ncpu fam", False),
        (b"", False),
    ],
)
def test_slow_sorts_are_those_of_zen_4(cpu, expected):
    assert sorts_slowly(cpu) is expected


def _run(before="", cpu=_ZEN_4, **environment):
    """Return whether numpy uses AVX-512, and what is left in the environment."""
    program = f"""
import os, prospect.columns.process as start
start._first_cpu = lambda: {cpu!r}
{before}
start.start_numpy()
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__ as has
print(has.get("X86_V4", has["AVX512F"]), int(np.sort(np.arange(9)[::-1])[0]))
print({{name: value for name, value in os.environ.items() if name[:3] in ("NPY", "OPE")}})
"""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NPY_", "OPENBLAS_"))}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.splitlines()


# To enable AVX2 where the machine of the test has none is an error of numpy's.
on_avx_2 = pytest.mark.skipif(
    b" avx2 " not in Path("/proc/cpuinfo").read_bytes(), reason="this CPU has no AVX2"
)


@on_avx_2
def test_its_vector_units_are_left_out_and_the_environment_stays():
    assert _run() == ["False 0", "{}"]


@on_avx_2
def test_what_the_user_chose_stays():
    chosen = {"NPY_DISABLE_CPU_FEATURES": "", "OPENBLAS_NUM_THREADS": "2"}
    assert _run(**chosen)[1] == str(chosen)


def test_other_cpus_are_left_as_they_are():
    assert _run(cpu=b"")[1] == "{}"


def test_numpy_that_is_there_already_is_left_alone():
    without, loaded = _run(cpu=b""), _run("import numpy")
    assert loaded == without


def test_masks_are_imported_once_somebody_has_some():
    program = """
import sys
import prospect.columns.process as start
start.start_numpy()
import numpy as np
print(np.unique([3, 1, 1]), "numpy.ma" in sys.modules)
print(np.ma.masked_array([3, 1, 1], [1, 0, 0]).sum(), np.ma is sys.modules["numpy.ma"])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == ["[1 3] False", "2 True"]
