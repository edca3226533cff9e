"""How many examples a property is tried with, and how many runs are simulated."""

from __future__ import annotations

import os
from typing import Any

import pytest

CI = os.environ.get("CI", "") not in ("", "0", "false")


def examples(full: int) -> int:
    """Return `full`, or a quarter of it where the environment says CI=true."""
    return full // 4 if CI else full


def simulated(full: int) -> int:
    """Return `full` simulated runs, or half of them where the environment says CI=true.

    For what is counted of fixed seeds and has bounds that hold for either number.
    """
    return full // 2 if CI else full


def nightly(*values: object) -> list[Any]:
    """Return parameters that are tried nightly: every day another of the list does for them."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]
