"""Whatever a process is made of, its hits are in the right function of the right object."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import prospect
from builders.command_line import run_here
from builders.examples import nightly
from builders.recordings import (
    PROGRAMS,
    build_program,
    hits_by,
    profile_of,
    record,
    record_without_files,
    until_used,
)
from builders.silent_mount import silent_mount
from builders.waiting import wait_for
from prospect.elf.image import ElfImage
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import find_image
from prospect.symbols.objects import Missing, ObjectKey

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
SPINS = ("static_spins", "global_spins")
# How often the clock is read depends on the machine.
READING = ("burn_with", "thread_seconds", "clock_gettime@plt", "__clock_gettime", "clock_gettime")


@pytest.fixture
def background():
    """Start commands that are ended with the test."""
    started = []

    def start(*command, comm=b"", **options):
        process = subprocess.Popen([str(word) for word in command], **options)
        started.append(process)
        if comm:
            wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_bytes() == comm + b"\n")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own: perf may have kept copies of binaries in the usual one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def report(*words):
    ran = run_here("report", *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def user_hits(profile, process, detail="3", **only):
    columns = ("object", "function")
    return hits_by(profile, *columns, detail=detail, process=process, mode="user", **only)


def check(profile, process, path, functions=SPINS, *, least=50, detail="3", **only):
    """Assert that 99 % of a process's samples in PATH are in its functions, most in `functions`."""
    counts = user_hits(profile, process, detail, **only)
    inside = {function: hits for (where, function), hits in counts.items() if where == str(path)}
    burning = [inside.get(function, 0) for function in functions]
    assert min(burning) > least, counts
    assert sum(burning) >= 0.95 * sum(inside.values()), counts
    known = sum(hits for function, hits in inside.items() if function in {*functions, *READING})
    assert known >= 0.99 * sum(inside.values()), counts
    assert sum(inside.values()) >= 0.9 * sum(counts.values()), counts


@pytest.mark.parametrize("how", [*nightly(()), ("move",)])
def test_code_that_was_moved_onto_other_pages_is_named_by_its_program(tmp_path, how):
    program = build_program(tmp_path, "hugetext")
    check(profile_of(tmp_path / "r", program, 150, *how), "hugetext", program)


@pytest.mark.parametrize("how", [*nightly(()), ("move",)])
def test_so_is_code_that_was_moved_before_the_recording(tmp_path, background, how):
    program = build_program(tmp_path, "hugetext")
    process = background(program, 60_000, *how, comm=b"hugetext")
    time.sleep(0.1)
    profile = profile_of(tmp_path / "r", *until_used(process.pid, 0.2))
    check(profile, "hugetext", program, SPINS[:1], detail="4", pid=process.pid)


def test_a_32_bit_program_and_its_vdso_are_named(tmp_path, background):
    source, program = PROGRAMS / "compat.s", tmp_path / "compat"
    subprocess.run(["as", "--32", source, "-o", tmp_path / "compat.o"], check=True)
    subprocess.run(["ld", "-melf_i386", tmp_path / "compat.o", "-o", program], check=True)
    try:
        process = background(program)
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    file = tmp_path / "r"
    record(file, *until_used(process.pid, 0.25))
    profile = prospect.open(file)
    counts = user_hits(profile, "compat", "4")
    assert counts[str(program), "first_spins"] > 50
    assert counts[str(program), "second_spins"] > 50
    vdso = {name: hits for (path, name), hits in counts.items() if path == "[vdso32]"}
    assert vdso
    assert "" not in vdso
    assert all(name.startswith("__kernel_vsyscall") for name in vdso), vdso
    process.kill()
    process.wait(10)
    gone = user_hits(prospect.open(file, use_cache=False), "compat", "4")
    assert gone["[vdso32]", ""] == sum(vdso.values())
    assert "a vdso of that kind still runs" in prospect.open(file).report(detail="4")


def in_other_root(root, program):
    """Return a command that runs PROGRAM, which needs no library, in a root of its own."""
    script = (
        'mount -t tmpfs none "$0" && cp "$1" "$0/burner" && mkdir "$0/old" && cd "$0" &&'
        ' pivot_root . old && exec /burner "$2"'
    )
    return ("unshare", "-m", "sh", "-c", script, root, program)


def test_a_path_means_another_program_in_another_root(tmp_path, background, home):
    inner, host = (
        build_program(tmp_path / name, "burner", "-static", *flags)
        for name, flags in (("inner", ("-Dglobal_spins=inner_spins",)), ("host", ()))
    )
    shutil.copy(host, "/burner")
    root = tmp_path / "root"
    root.mkdir()
    file = tmp_path / "r"
    try:
        process = background(*in_other_root(root, inner), 60_000, comm=b"burner")
        record(file, "/burner", 200)
        alive = prospect.open(file, use_cache=False)
        process.kill()
        process.wait(10)
        ended = prospect.open(file, use_cache=False)
    finally:
        Path("/burner").unlink()
    named = {
        function for (path, function), hits in user_hits(alive, "burner", "4").items() if hits > 50
    }
    # The other program burns in its first function for as long as the recording runs.
    assert named == set(SPINS)
    nameless = hits_by(ended, "object", function="", process="burner", mode="user")
    assert nameless["/burner"] > 100
    assert "/burner was replaced since it ran" in ended.report(detail="4")
    assert not home.exists()


def test_a_chroot_that_is_no_longer_used_is_named_by_its_directory(tmp_path, home):
    """Its program has ended, and the same path here means no file."""
    root, file = tmp_path / "root", tmp_path / "r"
    build_program(root, "burner", "-static")
    record_without_files(file, "chroot", str(root), "/burner", "100")
    shown = [
        report("--no-cache", "--sort", "sym", *words, file).decode()
        for words in ((), ("--sysroot", str(root)), (f"--symfs={root}",))
    ]
    assert not any(name in shown[0] for name in SPINS)
    assert all(name in shown[1] for name in SPINS)
    assert shown[1] == shown[2]
    profile = prospect.open(file, sysroot=str(root))
    assert set(SPINS) <= {function for (_, function) in user_hits(profile, "burner")}


def debug_file_below(directory, program):
    """Put the packed debug information of a program below a directory, and strip the program."""
    build_id = ElfImage.parse(program.read_bytes()).build_id.hex()
    debug = directory / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    packing = "--compress-debug-sections=zlib"
    subprocess.run(["objcopy", "--only-keep-debug", packing, program, debug], check=True)
    subprocess.run(["strip", program], check=True)


def assert_has_names_with(option, directory, file, commands):
    """Check that names and lines are found with the option only, and in an archive made with it."""
    archive = file.with_name("archive")
    run_here("archive", "--no-cache", option, directory, "-o", archive, file)
    asked = {
        "report": ("report", "--no-cache", file),
        "calls": ("calls", "--no-cache", file),
        "annotate": ("annotate", "--no-cache", "--source", "static_spins", file),
        "diff": ("diff", "--no-cache", file, file),
    }
    for words in (asked[command] for command in commands):
        assert b"static_spins" not in run_here(*words).stdout, words
        with_names = run_here(*words, option, directory).stdout
        assert b"static_spins" in with_names, words
        of_archive = [archive if word == file else word for word in words]
        assert b"static_spins" in run_here(*of_archive).stdout, words


def test_debug_files_of_a_chosen_directory_name_a_stripped_program(tmp_path, home):
    program, file = build_program(tmp_path, "burner", "-g"), tmp_path / "r"
    debug_file_below(tmp_path / "d", program)
    record(file, program, 100)
    commands = ("report", "calls", "annotate", "diff")
    assert_has_names_with("--debug-dir", tmp_path / "d", file, commands)


def test_debug_files_below_a_sysroot_name_its_stripped_programs(tmp_path, home):
    root, file = tmp_path / "root", tmp_path / "r"
    program = build_program(root, "burner", "-g", "-static", "-Wl,--build-id")
    debug_file_below(root / "usr/lib/debug", program)
    record_without_files(file, "chroot", str(root), "/burner", "100")
    assert_has_names_with("--sysroot", root, file, ("report", "annotate"))


def test_a_program_of_an_overlay_is_named(tmp_path, background):
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    for directory in (upper, work, merged):
        directory.mkdir()
    build_program(lower, "burner", "-Wl,--build-id=none")
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    script = 'mount -t overlay none -o "$1" "$0" && exec "$0/burner" 60000'
    process = background("unshare", "-m", "sh", "-c", script, merged, options)
    try:
        wait_for(lambda: process.poll() or Path(f"/proc/{process.pid}/comm").read_text() != "sh\n")
        wait_for(lambda: b"merged" in os.fsencode(Path(f"/proc/{process.pid}/exe").readlink()))
    except FileNotFoundError:
        pytest.skip("no overlay can be mounted here")
    profile = profile_of(tmp_path / "r", *until_used(process.pid, 0.2))
    check(profile, "burner", merged / "burner", SPINS[:1], detail="4", pid=process.pid)


def test_of_a_container_that_is_gone_perfs_copy_is_used_or_the_reason_said(tmp_path, home):
    program, root, file = (
        build_program(tmp_path, "burner", "-static"),
        tmp_path / "root",
        tmp_path / "r",
    )
    root.mkdir()
    record_without_files(file, *in_other_root(root, program), 150)
    profile = prospect.open(file)
    assert user_hits(profile, "burner")["/burner", ""] > 100
    assert "the file is gone, and no process that still runs has it mapped" in profile.report(
        detail="4"
    )
    build_id = ElfImage.parse(program.read_bytes()).build_id.hex()
    kept = home / ".debug" / ".build-id" / build_id[:2] / build_id[2:] / "elf"
    kept.parent.mkdir(parents=True)
    shutil.copy(program, kept)
    check(prospect.open(file), "burner", "/burner")


@pytest.mark.parametrize(
    "spaces", [*nightly(("-p", "-f"), ("-U", "-r")), ("-U", "-r", "-p", "-f", "-m")]
)
def test_programs_of_pid_and_user_namespaces_are_named(tmp_path, background, spaces):
    program = build_program(tmp_path, "burner")
    profile = profile_of(tmp_path / "r", "unshare", *spaces, program, 150)
    check(profile, "burner", program)


def test_names_of_the_kernels_and_of_terminals_are_names_of_files(tmp_path):
    names = ("[vdso]", "[kernel.kallsyms]", "anon (deleted) (deleted)", "a\tb", "\x1b[31mred\x07")
    programs = [build_program(tmp_path, "burner").rename(tmp_path / name) for name in names]
    file = tmp_path / "r"
    record(file, "sh", "-c", 'for program; do "$program" 150; done', "sh", *programs)
    profile = prospect.open(file)
    shown = hits_by(profile, "object", function="global_spins")
    own = {path: hits for path, hits in shown.items() if path.startswith(str(tmp_path))}
    assert len(own) == len(names)
    assert min(own.values()) > 50
    text = report(file)
    assert b"\x1b" not in text
    assert b"\x07" not in text
    document = report("--format", "json", file)
    for program in programs:
        assert json.dumps(str(program)).encode() in document


@pytest.mark.usefixtures("home")
def test_a_path_too_long_for_the_kernel_says_so(tmp_path):
    program = build_program(tmp_path, "burner")
    part = "d" * 250
    script = f"""import os, sys
for _ in range(20):
    os.mkdir({part!r}); os.chdir({part!r})
with open({str(program)!r}, "rb") as file, open("burner", "wb") as copy:
    copy.write(file.read())
os.chmod("burner", 0o755)
os.execv("./burner", ["burner", "150"])
"""
    file = tmp_path / "r"
    record(file, "python3", "-c", script, cwd=tmp_path)
    profile = prospect.open(file)
    counts = user_hits(profile, "burner")
    assert counts["//toolong", ""] > 100
    assert "longer than" in profile.report(detail="4")
    subprocess.run(["rm", "-rf", tmp_path / part], check=True)


def test_a_library_without_section_headers_is_named_by_what_its_loader_reads(tmp_path):
    build_program(tmp_path, "loads")
    # Of its own name: its build id and size say which bytes a kept symbol table was made of.
    library = build_program(
        tmp_path, "libomega.so", "-shared", "-fPIC", "-DNAME=omega", source="library"
    )
    content = bytearray(library.read_bytes())
    content[40:48], content[60:64] = bytes(8), bytes(4)  # e_shoff; e_shnum and e_shstrndx
    library.write_bytes(content)
    profile = profile_of(tmp_path / "r", tmp_path / "loads", 100, library)
    inside = {name for path, name in user_hits(profile, "loads") if path == str(library)}
    assert inside
    assert all("omega" in name for name in inside), inside


@pytest.mark.parametrize(
    "flags",
    [
        *nightly(("-Wl,-z,noseparate-code",)),
        *nightly(("-Wl,-z,separate-code", "-Wl,-z,max-page-size=65536")),
        *nightly(("-no-pie", "-Wl,-Ttext-segment=0x7000000")),
        ("-no-pie", "-Wl,--section-start=.text=0x9123000"),
    ],
)
def test_segments_may_lie_anywhere(tmp_path, flags):
    program = build_program(tmp_path, "burner", *flags)
    check(profile_of(tmp_path / "r", program, 150), "burner", program)


@pytest.fixture
def served_point(tmp_path):
    """A FUSE file system of another user whose server never answers."""
    point = tmp_path / "silent"
    point.mkdir()
    with silent_mount(point):
        yield point


@pytest.mark.timeout(60)
def test_a_file_system_of_another_user_that_does_not_answer_holds_nothing_up(
    tmp_path, served_point
):
    for path in (served_point / "program", served_point / "deep" / "program (deleted)"):
        found = find_image(ObjectKey(os.fsencode(path), b"x" * 20), [], 0.0)
        assert isinstance(found, Missing)
        assert found.reason == NameSource.NO_PERMISSION
        assert "FUSE file system of another user" in found.note


SPAWNS = """
import os, sys, threading, time
program = sys.argv[1]
def execute():
    os.execv(program, ["thread-exec", "150"])
for kind in range(40):
    pid = os.posix_spawn(program, ["burner", "5"], {}) if kind % 2 else os.fork()
    if not pid:
        os.execv(program, ["burner", "5"])
    os.waitpid(pid, 0)
pid = os.fork()
if not pid:  # a thread that is not the leader takes the process over
    threading.Thread(target=execute).start()
    time.sleep(10)
os.waitpid(pid, 0)
if not os.fork():  # what stays behind when COMMAND has ended
    os.setsid()
    if not os.fork():
        os.execv(program, ["burner", "150"])
    os._exit(0)
"""


def test_those_that_are_spawned_execute_at_once_or_from_a_thread_are_named(tmp_path):
    program, file = build_program(tmp_path, "burner"), tmp_path / "r"
    record(file, "python3", "-c", SPAWNS, program)
    profile = prospect.open(file)
    check(profile, "burner", program)
    counts = user_hits(profile, "burner")
    assert sum(counts.values()) > 400  # 40 of 5 ms and one of 150, at 2000 Hz
    assert not {path for path, _ in counts if "python" in path}


BUSY = """
for i in 1 2 3 4 5 6 7 8; do
    for j in 1 2 3 4 5 6 7 8 9 10; do /bin/true; (:); done
    echo 'int main(void) { return 0; }' | gcc -O2 -x c -o "$0/out$i" -
    python3 -c 'import json, re; sum(len(json.dumps(list(range(1000)))) for _ in range(400))'
done
"""


BUSY_NAMES = ("sh", "true", "gcc", "cc1", "as", "collect2", "ld", "python3")


def test_of_a_busy_systems_hits_nearly_all_have_a_name_and_the_others_an_entry_reason(tmp_path):
    file = tmp_path / "r"
    record(file, "sh", "-c", BUSY, tmp_path)
    profile = prospect.open(file)
    by_process = hits_by(profile, "process", "function")
    ours = {key: hits for key, hits in by_process.items() if key[0] in BUSY_NAMES}
    # What a distribution stripped is told apart by the bounds of its functions.
    nameless = sum(hits for (_, function), hits in ours.items() if not function)
    assert sum(ours.values()) > 500
    assert nameless < 0.005 * sum(ours.values()), profile.report(detail="4")
    document = json.loads(report("--format", "json", file))
    for event in document["events"]:
        quality = event["symbol_quality"]
        assert sum(entry["samples"] for entry in quality["sources"]) == quality["samples"]
        for entry in quality["sources"]:
            assert entry["samples"] > 0
            assert NameSource[entry["source"]].named == entry["named"]
            assert entry["named"] or (entry["objects"] and entry["remedy"]), entry
