"""Which runtime is said to lack an option: one with a good part of what is asked for."""

import numpy as np
import pytest
from tests.builders.profile import ProfileBuilder

from prospect.abi.cpython import FRAMES
from prospect.figures.report.symbol_quality import ANY_BUILD_SINCE, OLDEST_PYTHON, runtime_hints
from prospect.figures.selection import by_function
from prospect.profile.complete import complete
from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_JIT, KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.records import replace


def built(image, *, code=("", NameSource.NO_ANONYMOUS, KIND_ANON), hits=100, **process):
    """A process with hits in an image, and as many in memory without a file."""
    builder = ProfileBuilder()
    named = {"comm": "app"} | process
    row = builder.process(named.pop("comm"), 7, **({"is_command": True} | named))
    if image:
        inside = builder.function("eval", builder.object(image, KIND_ELF), 0x1000)
        builder.hit(row, inside, hits)
    name, source, kind = code
    made = builder.function(name, builder.object("//anon", kind), 0x2000, source=source)
    builder.hit(row, made, hits)
    return builder


def profile_of(image, **how):
    return built(image, **how).build()


def hints_of(profile, detail="2", jit_pids=(), **run):
    profile = replace(profile, run=replace(profile.run, jit_pids=jit_pids, **run))
    return runtime_hints(by_function(complete(profile)), detail)


@pytest.mark.parametrize(
    ("image", "option"),
    [
        ("/usr/bin/node", "--perf-basic-prof"),
        ("/usr/lib/libnode.so.108", "--perf-basic-prof"),
        ("/usr/bin/python3.11", "prospect doctor"),
        ("/usr/lib/libpython3.13.so.1.0", "-X perf"),
        ("/usr/lib/jvm/lib/server/libjvm.so", "DumpPerfMapAtExit"),
        ("/usr/bin/php8.2", "record as root"),
        ("/usr/lib/apache2/modules/libphp8.2.so", "record as root"),
        ("/usr/lib/erlang/erts-13.1.5/bin/beam.smp", "+JPperf true"),
        ("/usr/lib/libruby-2.5.so.2.5.5", "Ruby 2.5: Prospect reads 2.7 and later"),
        ("/usr/lib/libruby.so.3.4", "record as root"),
        ("/usr/bin/luajit-2.1.0-beta3", "luajit -jperfmap"),
        ("/usr/share/dotnet/shared/libcoreclr.so", "DOTNET_PerfMapEnabled=1"),
        ("/usr/lib/libpypy3.9-c.so", "pypy3 -m perfmap"),
        ("/usr/bin/perl", "C functions"),
    ],
)
def test_the_option_that_is_missing(image, option):
    (hint,) = hints_of(profile_of(image))
    assert option in hint.sentence
    assert hint.share in {0.5, 1.0}


@pytest.mark.parametrize("image", ["/usr/bin/nodejs2", "/usr/bin/python-config", "/usr/bin/ls"])
def test_other_images_are_no_runtimes(image):
    assert hints_of(profile_of(image)) == ()


def test_who_named_its_code_is_not_told():
    named = ("py::f", NameSource.MAP_FILE, KIND_JIT)
    assert hints_of(profile_of("/usr/bin/python3.13", code=named)) == ()
    assert hints_of(profile_of("/usr/bin/python3.13"), jit_pids=(7,)) == ()
    read = ("f", NameSource.PYTHON, KIND_PYTHON)
    assert hints_of(profile_of("/usr/bin/python3.13", code=read)) == ()


def test_few_hits_are_not_worth_a_sentence():
    assert hints_of(profile_of("/usr/bin/node", hits=9)) == ()
    assert len(hints_of(profile_of("/usr/bin/node", hits=10))) == 1


def test_hits_are_measured_against_what_was_asked_for():
    """A sixth of the command is much, however busy the machine is beside it."""
    build = built("/usr/bin/node", hits=16)
    other = build.function("work", build.object("/usr/bin/other", KIND_ELF), 0x1000)
    build.hit(build.process("server", 8), other, 100_000)
    build.hit(build.process("own", 9, is_command=True), other, 68)
    profile = build.build()
    (hint,) = hints_of(profile)
    assert hint.share == pytest.approx(0.16)
    assert hints_of(profile, "4") == ()


def test_a_runtime_whose_image_was_never_hit_is_known_by_its_process():
    for comm, option in (("luajit", "luajit -jp"), ("php", "record as root"), ("java", "perfmap")):
        (hint,) = hints_of(profile_of("", comm=comm))
        assert option in hint.sentence
    assert hints_of(profile_of("", comm="app")) == ()


def test_a_java_that_still_runs_can_be_asked_for_its_map():
    profile = profile_of("/jvm/libjvm.so")
    assert "jcmd 7 Compiler.perfmap" in hints_of(profile)[0].short
    end_ns = np.full_like(profile.processes.end_ns, 5)
    processes = replace(profile.processes, end_ns=end_ns)
    ended = hints_of(replace(profile, processes=processes))[0].short
    assert ended.endswith("java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit")


@pytest.mark.parametrize(
    ("image", "run", "words"),
    [
        ("python3.12d", {}, "CPython 3.12d: Prospect reads 3.8 and later, of debug builds 3.13"),
        ("python3.7", {}, "CPython 3.7: Prospect reads 3.8 and later"),
        ("python3.15", {}, "prospect doctor says"),
        ("python3.14t", {}, "prospect doctor says"),
        ("python3.16", {"limits": ("CPython 3.16 (process 7) was not read: why.",)}, "-X perf"),
        ("python3.11", {"recorder": "perf 6.1"}, "prospect record;"),
        (
            "python3.11",
            {"recorder_command_line": ("prospect", "record", "--no-python", "x")},
            "record without --no-python",
        ),
    ],
)
def test_why_python_has_no_names(image, run, words):
    run = {"recorder": "prospect 1"} | run
    (hint,) = hints_of(profile_of(f"/usr/bin/{image}"), **run)
    assert words in hint.sentence
    assert "root" not in hint.sentence


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"recorder": "perf 6.1"}, ": prospect record as root, or node --perf-basic-prof;"),
        ({"limits": ("Python functions were not read: why.",)}, ": prospect record as root, or"),
        ({"limits": ("V8 8.4 (process 7) was not read: why.",)}, ": node --perf-basic-prof;"),
        ({"recorder_command_line": ("prospect", "--no-python")}, ": record without --no-python;"),
        ({}, ": node --perf-basic-prof;"),
    ],
)
def test_why_node_has_no_names(run, words):
    (hint,) = hints_of(profile_of("/usr/bin/node"), **{"recorder": "prospect 1"} | run)
    assert words in hint.sentence


def test_the_versions_that_are_read_are_those_of_the_reader():
    assert set(range(OLDEST_PYTHON, ANY_BUILD_SINCE)) == set(FRAMES)


def test_the_recorder_is_not_meant():
    recorder = profile_of("/usr/bin/python3.13", is_recorder=True, is_command=False)
    assert hints_of(recorder) == ()


def test_a_recording_without_a_command_tells_of_all():
    assert len(hints_of(profile_of("/usr/bin/node", is_command=False), "4")) == 1
