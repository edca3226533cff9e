"""Files that are gone when the report is made have names: the recording keeps what is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import prospect
from builders.command_line import run_here
from builders.examples import nightly
from builders.recordings import PROGRAMS, PROSPECT, build_program, hits_by, profile_of, record
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
SPINS = ("static_spins", "global_spins")
REASON = "none: file gone"
TEMPORARY = 'd=$(mktemp -d) && cp "$0" $d/passing && $d/passing 200; rm -r $d'
ELSEWHERE = 'mkdir "$1" && cp "$0" "$1/passing" && "$1/passing" 200; rm -r "$1"'
UNMOUNTED = (
    'mkdir "$1" && mount -t tmpfs none "$1" && cp "$0" "$1/passing"; "$1/passing" 200;'
    # The child that keeps files may read this one at this moment.
    ' for i in $(seq 40); do umount "$1" && exit; sleep 0.5; done; exit 1'
)
CONTAINER = (
    'mkdir "$1" && mount -t tmpfs none "$1" && cp "$0" "$1/passing" && mkdir "$1/old" && cd "$1" &&'
    " pivot_root . old && exec /passing 200"
)
CHROOT = 'mkdir "$1" && cp "$0" "$1/passing" && chroot "$1" /passing 200; rm -r "$1"'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own: perf may have kept copies of binaries in the usual one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def elsewhere():
    """A place that is not for temporary files."""
    with tempfile.TemporaryDirectory(dir="/var/lib", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory) / "place"


def check_named(profile):
    """Assert that all of the burner's samples have a name, most in its functions."""
    counts = hits_by(profile, "function", detail="3", process="passing", mode="user")
    assert sum(counts.values()) > 50, counts
    assert "" not in counts
    assert sum(counts.get(name, 0) for name in SPINS) > 0.4 * sum(counts.values()), counts


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "script",
    [TEMPORARY, *nightly(ELSEWHERE, UNMOUNTED), CONTAINER, *nightly(CHROOT)],
    ids=str.split,
)
@pytest.mark.parametrize(
    "flags", [*nightly(()), ("-Wl,--build-id=none",)], ids=["build-id", "no-build-id"]
)
def test_what_ran_from_files_that_are_gone_is_named(tmp_path, elsewhere, script, flags):
    burner = build_program(tmp_path, "burner", "-static", *flags)
    words = ["sh", "-c", script, burner, elsewhere]
    if script == CONTAINER:
        words = ["unshare", "-m", *words]
    file = tmp_path / "r"
    record(file, *words)
    profile = prospect.open(file, use_cache=False)
    check_named(profile)
    assert REASON not in profile.report(detail="3")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("last", [*nightly('rm "$1"'), 'cp /bin/true "$1.new" && mv "$1.new" "$1"'])
def test_what_was_installed_before_and_is_removed_or_replaced_is_named(tmp_path, elsewhere, last):
    elsewhere.mkdir()
    installed = elsewhere / "passing"
    shutil.copy(build_program(tmp_path, "burner", "-static"), installed)
    file = tmp_path / "r"
    record(file, "sh", "-c", f'"$1" 300; {last}', "sh", installed)
    check_named(prospect.open(file, use_cache=False))


@pytest.mark.usefixtures("home")
def test_prospect_command_names_them_without_keeping_the_recording(tmp_path, elsewhere):
    burner = build_program(tmp_path, "burner", "-static")
    ran = run_here("sh", "-c", CHROOT, str(burner), str(elsewhere))
    assert ran.returncode == 0
    assert b"static_spins" in ran.stdout
    assert REASON.encode() not in ran.stdout


@pytest.mark.usefixtures("home")
def test_nothing_keeps_a_file_system_from_being_unmounted_or_a_program_from_being_replaced(
    tmp_path, elsewhere
):
    burner = build_program(tmp_path, "burner", "-static")
    script = (
        'mkdir "$1" && mount -t tmpfs none "$1" && cp "$0" "$1/passing" && "$1/passing" 200 &&'
        ' cp "$0" "$1/passing" || exit 1;'
        # As above, but not for long.
        ' for i in $(seq 20); do umount "$1" && break; sleep 0.05; done;'
        ' sleep 0.2 && ! grep -q "$1" /proc/self/mountinfo'
    )
    words = [*PROSPECT, "record", "-o", tmp_path / "r", "sh", "-c", script, burner, elsewhere]
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("home")
def test_callers_are_found_in_files_that_are_gone(tmp_path):
    burner = build_program(tmp_path, "burner", "-static")
    file = tmp_path / "r"
    words = [
        *PROSPECT,
        "record",
        "--call-graph",
        "dwarf",
        "-o",
        file,
        "sh",
        "-c",
        TEMPORARY,
        burner,
    ]
    subprocess.run([*map(str, words)], check=True, capture_output=True, timeout=60)
    text = run_here("calls", "--no-cache", file).stdout.decode()
    assert "static_spins" in text
    assert "burn_with" in text


def test_only_files_with_samples_are_kept(tmp_path, elsewhere):
    burner = build_program(tmp_path, "burner", "-static")
    script = 'mkdir "$1" && cp "$0" "$1/idle" && "$1/idle" 0; rm -r "$1"; exec "$2" 300'
    file = tmp_path / "r"
    record(file, "sh", "-c", script, burner, elsewhere, burner)
    with open_recording(str(file)) as recording:
        kept = {Path(os.fsdecode(image.path)).name for image in recording.info.images}
    sampled = hits_by(prospect.open(file), "object", "function", detail="4", mode="user")
    # A tick may fall into the start of the one that does nothing.
    assert "burner" in kept <= {Path(path).name for path, _ in sampled}


def test_usual_programs_are_not_kept(tmp_path):
    profile_of(tmp_path / "r", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    with open_recording(str(tmp_path / "r")) as recording:
        assert recording.info.images == ()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("is_newer", [False, True])
def test_a_source_is_as_new_as_it_is_next_to_the_kept_file(tmp_path, elsewhere, is_newer):
    elsewhere.mkdir(mode=0o755)
    source = elsewhere / "burner.c"  # a kept file grants no rights to others
    shutil.copy(PROGRAMS / "burner.c", source)
    build = ["gcc", "-O1", "-g", "-static", "-I", PROGRAMS, "-o", tmp_path / "burner", source]
    subprocess.run(build, check=True, timeout=60)
    file = tmp_path / "r"
    record(file, "sh", "-c", TEMPORARY, tmp_path / "burner")
    (tmp_path / "burner").unlink()
    if is_newer:
        source.touch()
    text = run_here("annotate", "--source", str(file)).stdout.decode()
    assert "static_spins" in text
    assert ("The source is newer than" in text) == is_newer
