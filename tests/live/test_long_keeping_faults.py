"""Days of all hosts on a full disk: what is there stays, and the next `compact` makes them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess

import pytest

from builders.examples import nightly
from builders.fleet import fleet_store
from prospect.cli.main import main

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes file systems"),
]


@pytest.fixture(name="fleet")
def _fleet(tmp_path):
    """A fleet on a file system that has little room beside it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "prospect-test", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield fleet_store(disk / "fleet")
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill_up(disk, *, but):
    """Fill a file system but for some bytes, and return the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - what else there is is a failure
    os.truncate(ballast, ballast.stat().st_size - but)
    return ballast


def top(capfd, fleet):
    assert main(["fleet", "top", "--store", str(fleet), "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    return found["samples"], found["hosts"], [row["function"] for row in found["rows"]]


@pytest.mark.parametrize("fitting", [*nightly(0), 1, *nightly(2)])
def test_a_day_that_has_no_room_is_said_and_made_once_there_is(fleet, capfd, fitting):
    before = top(capfd, fleet)
    assert main(["store", "compact", "--store", str(fleet)]) == 0
    capfd.readouterr()
    # In the order in which they are written.
    sizes = [
        next(fleet.glob(f"fleet/date=*/*.{kind}.parquet")).stat().st_blocks * 512
        for kind in ("functions", "hosts", "parts")
    ]
    shutil.rmtree(fleet / "fleet")
    ballast = fill_up(fleet.parent, but=sum(sizes[:fitting]))
    assert main(["store", "compact", "--store", str(fleet)]) == 1
    said = capfd.readouterr().err
    assert "No space left on device" in said
    assert said.count("\n") == 1
    assert not [path for path in fleet.rglob("*") if path.name.endswith(".part")]
    assert not list(fleet.glob("fleet/date=*/*.parts.parquet"))
    assert top(capfd, fleet) == before
    ballast.unlink()
    assert main(["store", "compact", "--store", str(fleet)]) == 0
    assert "made: 1 day of all hosts" in capfd.readouterr().out
    assert len(list(fleet.glob("fleet/date=*/*.parquet"))) == 3
    assert top(capfd, fleet) == before


def test_days_answer_on_a_full_disk(fleet, capfd):
    before = top(capfd, fleet)
    assert main(["store", "compact", "--store", str(fleet)]) == 0
    capfd.readouterr()
    fill_up(fleet.parent, but=0)
    assert top(capfd, fleet) == before
    for host in fleet.glob("host=*"):
        shutil.rmtree(host)
    fill_up(fleet.parent, but=0)
    assert top(capfd, fleet) == before
