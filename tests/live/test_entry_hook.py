"""Entry hooks of other packages: the one that docs/plugins.md builds, and those that fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from builders.recordings import PROSPECT

pytestmark = [pytest.mark.live, pytest.mark.parallel]
PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
# 1000 blocks of 5000 bytes: of no other size are there as many.
MALLOCS = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
for _ in range(1000): libc.malloc(5000)
"""


@pytest.fixture
def recorded(install_plugin, tmp_path):
    """Return the counted calls of a recording with a hook of some code, and what was said."""

    def record(code):
        install_plugin("prospect.hooks", "sizes", code)
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "site-packages")}
        words = ["--count-calls", "libc.so.6:malloc", "--count-hook", "sizes", "--format", "json"]
        words += ["--count-budget", "100", "-f", tmp_path / "out"]
        ran = subprocess.run(
            [*PROSPECT, *words, "/usr/bin/python3", "-c", MALLOCS],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr
        return json.loads((tmp_path / "out").read_text())

    return record


def counted(report):
    return next(filter(None, (event["call_counts"] for event in report["events"])))


def code_of_the_page():
    (code,) = re.findall(r"```python\n# prospect_sizes.py\n(.*?)```", PAGE, re.DOTALL)
    return code.replace("def hook(", "def run(")


def test_the_hook_of_the_page_counts_sizes(recorded):
    calls = counted(recorded(code_of_the_page()))
    assert calls["hook"]["name"] == "sizes"
    by_size = dict(re.findall(r"([\d,]+) and more: ([\d,]+)", "\n".join(calls["hook"]["lines"])))
    assert 1000 <= int(by_size["4,096"].replace(",", "")) < 2000


def test_a_hook_at_returns_sees_results_and_functions(recorded):
    code = (
        "from prospect.capture.kernel.bpf_assembler import Reg\n"
        "def run(kit):\n"
        "    seen = kit.counters(1)\n"
        "    kit.at_return(kit.result(Reg.R6), kit.number(Reg.R7), kit.count(seen, Reg.R7))\n"
        "    return lambda: [f'{kit.functions[0]} {seen.read()[0]}']\n"
    )
    (line,) = counted(recorded(code))["hook"]["lines"]
    assert int(line.removeprefix("malloc ")) >= 1000


# A register that nobody has set.
REFUSED = """
from prospect.capture.kernel.bpf_assembler import Reg, move
def run(kit):
    kit.at_entry([move(Reg.R6, Reg.R9)])
    return list
"""


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        pytest.param(
            "def run(kit): return print\n", "it gives no program", marks=pytest.mark.nightly
        ),
        (REFUSED, "entry hook sizes, a plug-in of prospect-test, failed"),
    ],
)
def test_one_that_fails_is_named_once_and_calls_are_counted_all_the_same(recorded, code, says):
    report = recorded(code)
    said = [line for line in report["notes"] if says in line]
    assert len(said) == 1, report["notes"]
    assert counted(report)["hook"] is None
    assert sum(function["counted"] for function in counted(report)["functions"]) >= 1000


def test_without_counted_calls_or_a_hook_of_that_name_nothing_starts():
    for words, says in (
        (("--count-hook", "x", "true"), "give --count-calls too"),
        (("--count-calls", "libc.so.6:malloc", "--count-hook", "x", "true"), "no entry hook 'x'"),
    ):
        ran = subprocess.run(
            [*PROSPECT, *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 2
        assert says in ran.stderr
