"""`scripts/check` names what the tests look for and do not find, and `.ci/run` installs it."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Debian 12 has them in each system or has no package of them, or few tests look for them.
UNLISTED = {"capsh", "chrt", "clang++", "go", "rustc", "sh", "systemd-analyze", "unshare"}


@pytest.fixture
def listed():
    return runpy.run_path(str(ROOT / "scripts" / "missing.py"))


def test_each_program_that_tests_look_for_is_listed(listed):
    looked_for = set()
    for file in (ROOT / "tests").rglob("*.py"):
        looked_for |= set(re.findall(r"which\(\"([^\"]+)\"\)", file.read_text()))
    assert len(looked_for) > 20
    assert looked_for - UNLISTED <= listed["PROGRAMS"].keys()


def test_each_package_is_installed_by_ci(listed):
    installed = re.search(r"^packages=\((.*)\)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    packages = {*listed["PROGRAMS"].values(), *listed["FILES"].values(), "libpfm4"}
    assert packages <= set(installed[1].split())


def test_what_is_missing_is_named(tmp_path):
    script = [sys.executable, ROOT / "scripts" / "missing.py"]
    environment = {"PATH": str(tmp_path)}
    ran = subprocess.run(script, capture_output=True, text=True, check=True, env=environment)
    assert re.fullmatch(r"check: missing for a full run: Debian's .*\bnodejs\b.*\n", ran.stderr)


def test_what_runs_at_night_is_there():
    nightly = runpy.run_path(str(ROOT / "tests" / "conftest.py"))["NIGHTLY"]
    assert [name for name in nightly if not (ROOT / "tests" / name).is_file()] == []
