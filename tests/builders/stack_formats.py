"""Profiles with call stacks as other tools' formats have them, and how many samples they hold."""

import re

import pytest

from builders.pages import report_of
from builders.profile import empty_profile, hostile_profile, perf_profile, qsort_profile
from builders.stacks import lined_stacks_profile, random_stacks_profile, stacks_profile

PROFILES = {
    "stacks": stacks_profile,
    "lines": lined_stacks_profile,
    "qsort": qsort_profile,
    "perf": perf_profile,
    "hostile": hostile_profile,
    "random": lambda: random_stacks_profile(2000, 150, 12),
    "empty": empty_profile,
}
COUNTS = {"stacks": 30, "lines": 30, "qsort": 1014, "perf": 4010, "random": 2000, "empty": 0}
COUNTS["hostile"] = int(hostile_profile().hits.count.sum())


every_case = pytest.mark.parametrize("case", PROFILES)


def rendered(name, profile, *, detail="4", inline=True):
    return report_of(profile, name, detail=detail, inline=inline)


def folded_stacks(data):
    found = {}
    for line in data.decode().splitlines():
        match = re.fullmatch(r"([^;\n]+(?:;[^;\n]+)*) ([0-9]+)", line)
        assert match, line
        assert match[1] not in found
        assert match[1].isprintable()
        found[match[1]] = int(match[2])
    return found
