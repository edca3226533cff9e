"""`--merge-cases`: every case is tried, and the one that fails is named."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = """
import pytest

@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize(("b", "c"), [(1, 2), pytest.param(3, 4, id="x")])
def test_of_products(a, b, c):
    assert a + b + c < 9

@pytest.mark.parametrize("a", [1, 2])
def test_of_which_one_is_skipped(a):
    assert a == 2 or pytest.skip("one")

@pytest.mark.parametrize("a", [1, 2])
def test_with_a_fixture(a, tmp_path):
    assert not [*tmp_path.iterdir()]
    (tmp_path / "file").touch()

@pytest.mark.parametrize("a", [1, pytest.param(2, marks=pytest.mark.xfail)])
def test_with_a_mark(a):
    assert a == 1

@pytest.mark.parametrize("a", (number for number in (1, 2)))
def test_of_a_generator(a):
    assert a
"""


def test_cases_without_fixtures_and_marks_are_one_test(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    words = ("-p", "builders.merged_cases", "--merge-cases", "-p", "no:cacheprovider", "-q")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-o", f"pythonpath={TESTS}", "test_cases.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 6 passed, 1 xfailed" in ran.stdout, ran.stdout
    assert "the case is {'b': 3, 'c': 4, 'a': 2}" in ran.stdout
