"""What a daemon may do once it runs, and what its unit lets it do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from prospect.cli.main import main
from prospect.daemon import daemon_rights
from prospect.daemon.daemon_rights import unit_text

LOOK = """
import os, sys
from prospect.daemon import daemon_rights as rights
rights.{what}()
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        print(*line.split())
print("others", os.access("/etc/shadow", os.R_OK))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")


def after(what):
    out = subprocess.run(
        [sys.executable, "-c", LOOK.format(what=what)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split(" ") for line in out.replace(":", "").splitlines())


@needs_root
def test_a_daemon_keeps_what_it_needs_and_cannot_get_more():
    said = after("keep_what_is_needed")
    wanted = sum(1 << number for number in daemon_rights.KEPT.values())
    assert said["NoNewPrivs"] == "1"
    assert int(said["CapAmb"], 16) == int(said["CapInh"], 16) == 0
    for which in ("CapPrm", "CapEff", "CapBnd"):
        assert int(said[which], 16) & ~wanted == 0
    assert int(said["CapEff"], 16) & 1 << daemon_rights.KEPT["CAP_SYS_PTRACE"]


@needs_root
def test_what_writes_files_keeps_nothing():
    said = after("keep_nothing")
    assert {int(said[f"Cap{which}"], 16) for which in ("Prm", "Eff", "Bnd", "Inh", "Amb")} == {0}


def test_an_old_kernel_has_one_right_for_all_of_it(monkeypatch):
    assert "CAP_SYS_ADMIN" not in daemon_rights.kept_names()
    monkeypatch.setattr(daemon_rights, "last_capability", lambda: 37)
    assert "CAP_SYS_ADMIN" in daemon_rights.kept_names()


def test_the_unit_names_what_the_daemon_writes_to(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["no such program"])
    assert main(["daemon", "--unit", "-H", "47"]) == 0
    text = capfd.readouterr().out
    assert f"ExecStart={sys.executable} -m prospect daemon -H 47\n" in text
    assert "StateDirectory=prospect\n" in text
    assert "ReadWritePaths" not in text
    assert f"CapabilityBoundingSet={' '.join(daemon_rights.kept_names())}\n" in text
    sends = unit_text(["/bin/p"], "", "", sent_to="/mnt/profiles")
    assert "ReadWritePaths=/mnt/profiles" in sends
    assert "RestrictAddressFamilies=AF_UNIX\n" in sends
    samples = unit_text(["/bin/p"], "", "", state="prospect-targets")
    assert "StateDirectory=prospect-targets\n" in samples
    sends = unit_text(["/bin/p"], "", "", has_network=True)
    assert "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n" in sends
    text = unit_text(["/bin/p", "a b%$c"], "/srv/st", "/var/lib/node exporter/p.prom")
    assert 'ExecStart=/bin/p "a b%%$$c"\n' in text
    assert 'ReadWritePaths="/var/lib/node exporter" /srv/st\n' in text
    assert "StateDirectory" not in text
    assert main(["daemon", "--unit", "--store", "here"]) == 2
    assert "give 'here' as an absolute path" in capfd.readouterr().err


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path):
    unit = tmp_path / "prospect.service"
    words = [sys.executable, "-m", "prospect", "daemon", "--metrics", "/srv/a b/x%.prom"]
    unit.write_text(unit_text(words, "/srv/the store", "/srv/a b/x%.prom"))
    told = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (told.returncode, told.stderr) == (0, "")
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=45", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told.stdout[-200:]
