"""The fuzz campaign: what it calls a failure, and most of a minute of it (in CI a quarter)."""

from __future__ import annotations

import mmap
import subprocess
from pathlib import Path

import pytest

from builders.examples import examples
from fuzz import campaign
from fuzz.cases import Target

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz"


def crash(words):
    raise OverflowError(words[0])


def refuse(words):
    return 1


def hang(words):
    while True:
        pass


def eat(words):
    memory = mmap.mmap(-1, 80 << 20)  # not what this process has freed and still holds
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    return 0


def report(words):
    return 0


def write_case(draw, directory):
    (directory / "perf.data").write_bytes(draw.randbytes(8))
    return ["report", "perf.data"]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (report, campaign.READ),
        (refuse, campaign.REFUSED),
        (crash, campaign.CRASHED),
        (hang, campaign.LATE),
        (eat, campaign.BIG),
    ],
)
def test_what_becomes_of_a_case(command, kind, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(campaign, "prospect", command)
    monkeypatch.setattr(campaign, "MOST_CPU_S", 1)
    monkeypatch.setattr(campaign, "MOST_BYTES", 64 << 20)
    counts = campaign.campaign([Target("any", write_case)], 0, 1, tmp_path)
    assert counts["any"] == {kind: 1}
    kept = sorted(path.name for path in tmp_path.glob("any-1-0/*"))
    assert kept == (["command", "perf.data", "stderr"] if kind in campaign.FAILURES else [])


def test_the_same_seed_makes_the_same_case(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "prospect", crash)
    made = []
    for turn in "ab":
        campaign.campaign([Target("any", write_case)], 0, 7, tmp_path / turn)
        made.append((tmp_path / turn / "any-7-0" / "perf.data").read_bytes())
    assert made[0] == made[1]


def test_mutants_are_read_or_refused():
    minutes = examples(80) / 100
    done = subprocess.run(
        [SCRIPT, str(minutes), "1"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, total = done.stdout.splitlines()
    _, read, refused, *failed = total.split()
    assert int(read) > 0
    assert int(refused) > 0
    assert failed == ["0", "0", "0"]
