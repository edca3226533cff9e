"""What all tests share: the option that rewrites golden files, and that none asks a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

# Debian's libdebuginfod-common sets it for every login: no test asks a server but its own.
os.environ.pop("DEBUGINFOD_URLS", None)


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the tests got over the golden files; read the diff before keeping it",
    )


@pytest.fixture
def golden(request):
    """Compare bytes with tests/golden/NAME, or write them there with --rewrite-golden."""

    def check(name: str, got: bytes) -> None:
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(got)
        assert path.exists(), f"{path} is missing: python -m pytest --rewrite-golden"
        assert got.decode("utf-8", "surrogateescape") == path.read_bytes().decode(
            "utf-8", "surrogateescape"
        ), f"{name} differs; if that is meant: python -m pytest --rewrite-golden"

    return check
