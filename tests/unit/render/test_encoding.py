"""Numbers leave with digits that are the same on every machine."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.render.encoding import encoded, significant

GOLDEN = Path(__file__).parents[2] / "golden"


@given(st.floats(1e-300, 1e12) | st.floats(-1e12, -1e-300))
def test_a_rounded_number_is_near_and_rounds_to_itself(value):
    found = significant(value)
    assert math.isclose(found, value, rel_tol=6e-12)
    assert significant(found) == found


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=50), st.randoms())
def test_the_order_of_a_sum_does_not_show(values, chance):
    total = math.fsum(values)
    shuffled = list(values)
    chance.shuffle(shuffled)
    # Next to a limit between two roundings, both are right.
    step = abs(significant(sum(values)) - significant(sum(shuffled)))
    assert step <= 1.01e-11 * max(total, 1e-300)


def test_numbers_are_rounded_wherever_they_stand():
    third = 1 / 3
    document = {
        "a": [third, {"b": (third, np.float64(third), 7, "x", None, True)}],
        "c": -1e-320 * 0,
    }
    short = 0.333333333333
    assert json.loads(encoded(document)) == {
        "a": [short, {"b": [short, short, 7, "x", None, True]}],
        "c": 0.0,
    }


def test_what_is_not_known_is_null():
    assert encoded([math.nan, math.inf, -math.inf]) == b"[null, null, null]"


def test_times_since_1970_keep_their_microseconds():
    assert encoded(1_763_848_211.123457) == b"1763848211.123457"


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.json")), ids=lambda path: path.name)
def test_no_document_has_more_digits(path):
    def digits(text):
        whole, _, fraction = text.lower().partition("e")[0].lstrip("-").partition(".")
        # Clock readings of the Firefox and Chrome formats are whole nanoseconds.
        assert len((whole + fraction).strip("0")) <= 12 or len(fraction) <= 6, text
        return float(text)

    json.loads(path.read_text("utf-8", "surrogateescape"), parse_float=digits)


def _found():
    """What numpy's functions are chosen by that this CPU has, beside what every CPU has."""
    return np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])


_OFF = {
    "all": bool,
    "512 bits": lambda feature: "512" in feature or feature == "X86_V4",
}


@pytest.mark.parametrize("which", ["all", pytest.param("512 bits", marks=pytest.mark.nightly)])
def test_golden_files_hold_on_a_cpu_with_less(which):
    off = " ".join(filter(_OFF[which], _found()))
    if not off:
        pytest.skip("numpy has found nothing here that could be turned off")
    environment = {
        "PATH": "/usr/bin:/bin",
        "NPY_DISABLE_CPU_FEATURES": off,
        # The C library chooses among its exp and log, and OpenBLAS among its kernels, likewise.
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
        "OPENBLAS_CORETYPE": "Prescott",
    }
    code = (
        "import numpy; print(*numpy.show_config(mode='dicts')['SIMD Extensions'].get('found', []))"
    )
    left = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(off.split()) & set(left)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run(
        [*command, "-m", "golden", Path(__file__).parent],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
