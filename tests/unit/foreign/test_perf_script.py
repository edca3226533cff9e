"""The text of perf script, in the forms in which people keep it."""

from __future__ import annotations

import io
import time

import pytest

from prospect.errors import RecordingError
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.foreign.detection import foreign_kind
from prospect.foreign.perf_script_profile import _split, perf_script_profile
from prospect.profile.model import KIND_KERNEL, KIND_VDSO
from prospect.render.registry import make_renderer

CHAINS = b"""\
# ========
# captured on    : Sun Nov 22 21:40:00 2026
# ========
#
work   77/78  [000]   946.229185:    3537459 cpu-clock:u:
\tffffffff816b82eb vfs_read+0xbb ([kernel.kallsyms])
\t    7f3b2f633518 __read+0x38 (/usr/lib/libc.so.6)
\t          401136 main+0x10 (/tmp/my program (deleted))

Web Content   90/91  [001]   947.000000:     250000 cpu-clock:u:
\t    7ffd2a5c8a10 [unknown] ([vdso])
\t          401136 operator()(int) (inlined)
\t  work.c:12
\t          401136 main+0x20 (/tmp/my program (deleted))

work   77/77  [000]   947.229185:    3537459 cpu-clock:u:
\tffffffff816b82eb vfs_read+0x17 ([kernel.kallsyms])
\t    7f3b2f633518 __read+0x38 (/usr/lib/libc.so.6)
\t          401136 main+0x10 (/tmp/my program (deleted))
"""


def read(data):
    return perf_script_profile("script.txt", memoryview(data))


def folded(profile):
    out = io.BytesIO()
    make_renderer("folded", detail="4").render(profile, out)
    return out.getvalue().decode().splitlines()


def test_chains_are_stacks_and_equal_ones_are_summed():
    profile = read(CHAINS)
    assert folded(profile) == [
        "Web Content;main;operator()(int);[vdso] 1",
        "work;main;__read;vfs_read_[k] 2",
    ]
    kinds = dict(zip(profile.objects.path, profile.objects.kind.tolist(), strict=True))
    assert kinds["[kernel.kallsyms]"] == KIND_KERNEL
    assert kinds["[vdso]"] == KIND_VDSO
    assert "/tmp/my program (deleted)" in kinds


def test_processes_times_and_cpus_are_those_of_the_text():
    profile = read(CHAINS)
    named = zip(profile.processes.name, profile.processes.pid.tolist(), strict=True)
    assert sorted(named) == [("Web Content", 90), ("work", 77)]
    assert (profile.run.cpus, profile.run.wall_seconds) == (2, 1.0)
    (event,) = profile.run.events
    assert (event.name, event.seconds_per_period) == ("cpu-clock:u", 1e-9)
    assert sorted(profile.hits.period.tolist()) == [250000, 3537459, 3537459]


FORMS = {
    "no chains": (
        b"   python3 14794  2947.705582:     250000 cpu-clock:  ffffffff815d2ca8 f+0x38 ([k])\n"
        b"   python3 14794 [001] 2947.705829:     250000 cpu-clock:      7f3b2f633518 g (/lib/c)\n"
    ),
    "no period": (
        b"python3 14794/14795 [001] 2947.705829: cycles:P: \n\t 7f f+0x3 (/lib/c)\n\n"
        b"python3 14794/14795 [001] 2947.705830: cycles:P: \n\t 7f g+0x3 (/lib/c)\n\n"
    ),
    "names and addresses": (
        b" python3 14794  ffffffff815d2ca8 f\n python3 14794      7f3b2f633518 g\n"
    ),
    "names and chains": b"my prog 12 \n\t 7f f (/lib/c)\n\nmy prog 12 \n\t 7f g (/lib/c)\n\n",
    "tracepoints": (
        b"a b 12 [000] 1.5: sched:sched_switch: prev_comm=x prev_pid=1 ==> next_comm=y\n"
        b"\tffffffff815d2ca8 f+0x1 ([kernel.kallsyms])\n\n"
        b"a b 12 [000] 1.6:          1 sched:sched_switch: prev_comm=x\n"
        b"\tffffffff815d2ca8 g+0x1 ([kernel.kallsyms])\n\n"
    ),
    "other records": (
        b"work 6385 [000] 1.0: PERF_RECORD_MMAP2 6385/6385: [0x1000(0x1000) @ 0]: r-xp /x\n"
        b"work 6385 [000] 1.1: cycles: \n\t 7f f+0x3 (/lib/c)\n\n"
        b"work 6385 [000] 1.2: PERF_RECORD_EXIT(6385:6385):(1:1)\n"
        b"work 6385 [000] 1.3: cycles: \n\t 7f g+0x3 (/lib/c)\n\n"
    ),
    "windows' ends of lines": (
        b"work 6385 [000] 1.1: cycles: \r\n\t 7f f+0x3 (/lib/c)\r\n\r\n"
        b"work 6385 [000] 1.3: cycles: \r\n\t 7f g+0x3 (/lib/c)\r\n\r\n"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_fields_there_are_is_not_fixed(form):
    assert foreign_kind(FORMS[form]) == "perf script"
    profile = read(FORMS[form])
    assert sorted(profile.functions.name) == ["f", "g"]
    assert profile.hits.count.sum() == 2
    assert profile.run.limits == ()
    assert len(set(profile.comms)) == 1


def test_odd_lines_are_counted_and_mostly_odd_ones_refused():
    profile = read(CHAINS + b"\nWarning: something is lost\n")
    assert profile.hits.count.sum() == 3
    (limit,) = profile.run.limits
    assert limit == "1 line is no sample of perf script and left out; the first is line 21."
    with pytest.raises(RecordingError, match="line 1 is no sample of perf script"):
        read(b"nothing\nof the kind\n")


HEADER = (
    b"# ========\n# hostname : box\n# nrcpus online : 8\n# total memory : 1000 kB\n"
    b"# event : name = cpu-clock, , id = { 5, 6 }, type = 1, size = 0\n"
    b"# sample duration : 12.5 ms\n"
    + b"# CPU 7: Core ID 3, Die ID 0, Socket ID 0\n" * 200
    + b"# ========\n#\n"
)


def deep(frames, *, inlined=0):
    """Return a sample that many frames deep, of functions f0 inside to main."""
    lines = [f"\t{0x401000 + at:16x} f{at}+0x1 (/bin/work)" for at in range(frames)]
    lines += [f"\t{0x401000:16x} g{at} (inlined)" for at in range(inlined)]
    return "\n".join(("work 7/7 [000] 1.000000: 250000 cpu-clock:u: ", *lines, "", "")).encode()


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        (deep(127) * 2 + deep(3), True),
        (deep(127) + deep(127, inlined=4), True),
        (deep(128) * 2, True),
        (deep(127), False),
        (deep(126) * 2, False),
        (deep(126, inlined=1) * 2, False),
        (deep(127) * 2 + deep(140), False),
    ],
)
def test_stacks_as_deep_as_perf_prints_them_are_cut(text, is_cut):
    profile = read(text)
    cut = [line for line in folded(profile) if "[cut]" in line]
    assert all(line.startswith("work;[cut];") for line in cut)
    quality = stack_quality(profile)
    assert (quality.cut_stacks if quality else 0) == (2 if is_cut else 0)
    assert bool(cut) == is_cut


def test_lines_of_the_header_are_no_samples():
    assert foreign_kind(HEADER + CHAINS) == "perf script"
    profile = read(HEADER + CHAINS)
    assert folded(profile) == folded(read(CHAINS))
    assert [event.name for event in profile.run.events] == ["cpu-clock:u"]


def test_a_name_may_begin_like_a_comment():
    text = CHAINS + b"\n#1 worker  5/6  [001]   947.5:  7 cpu-clock:u: \n\t      401136 main (/x)\n"
    assert "#1 worker;main 1" in folded(read(text))


def printed(fields, comm=b"burn", number=0):
    """A sample as `perf script -F` prints these fields."""
    said = b"%s " % comm if "comm" in fields else b""
    if "tid" in fields:
        said += b"%7d/%-7d " % (4711, 4712) if "pid" in fields else b"%7d " % 4711
    elif "pid" in fields:
        said += b"%7d " % 4711
    said += b"[%03d] " % 1 if "cpu" in fields else b""
    said += b"%-5s " % b"U" if "misc" in fields else b""
    said += b"%5d.%06d: " % (2139, 344726 + number) if "time" in fields else b""
    said += b"%10d " % 2_000_000 if "period" in fields else b""
    said += b"%12s: " % b"cpu-clock" if "event" in fields else b""
    frames = b"\t%16x work+0x18 (/opt/app)\n\t%16x main+0x2 (/opt/app)\n" % (0x401136, 0x401200)
    return said + b"\n" + frames + b"\n"


FIELDS = ("comm", "tid", "pid", "cpu", "misc", "time", "period", "event")


@pytest.mark.parametrize("bits", range(1 << len(FIELDS)))
def test_whatever_fields_were_chosen_samples_are_whose_they_are(bits):
    fields = [field for bit, field in enumerate(FIELDS) if bits >> bit & 1]
    text = b"".join(printed(fields, number=number) for number in range(5))
    assert foreign_kind(text) == "perf script"
    profile = read(text)
    numbered = "pid" in fields or "tid" in fields
    name = "burn" if "comm" in fields else ":4711" if numbered else "[all]"
    assert folded(profile) == [f"{name};main;work 5"]
    assert profile.hits.count.sum() == 5
    if "period" in fields:
        assert profile.hits.period.sum() == 10_000_000
    assert bool(profile.run.limits) == ("comm" not in fields)


def test_a_number_that_may_be_a_thread_or_a_period_is_refused():
    text = b"250000 cpu-clock: \n\t          401136 main\n\n" * 5
    with pytest.raises(RecordingError, match=r"perf script -F \+comm,tid,period"):
        read(text.replace(b"250000", b"12"))
    assert folded(read(text.replace(b"250000", b"    250000"))) == ["[all];main 5"]
    assert folded(read(text)) == [":250000;main 5"]


def test_names_that_look_like_other_fields_stay_names():
    names = [b"java main", b"[ET_NET 0]", b"Hashed wheel timer #1", b"abc 123", b"a) R (b", b":-1"]
    names += [b"x [001]", b"ksoftirqd/3", b"tokio:rt 4/7"]
    text = b"".join(printed(set(FIELDS) - {"misc"}, comm=name) for name in names)
    assert folded(read(text)) == sorted(f"{name.decode()};main;work 1" for name in names)


def test_text_of_simpleperf_is_read():
    text = (
        b"com.example.android.displayingbitmaps\t31850/31850 [005] 684943.518055: 250000"
        b" cpu-clock:\n"
        b"      74aad30e2a f (/x)\n      74aad30e2b g ([JIT app cache])\n\n"
    )
    assert foreign_kind(text) == "perf script"
    assert folded(read(text)) == ["com.example.android.displayingbitmaps;g;f 1"]


@pytest.mark.parametrize(
    ("frame", "name", "path"),
    [
        (b"operator()(int) const+0x2 (/opt/a dir (x)/bin)", "operator()(int) const", None),
        (b"operator()(int) const (/opt/a dir (x)/bin)", "operator()(int) const", None),
        (b"f (int) (/opt/a (b/bin)", "f (int)", "/opt/a (b/bin"),
        (b"f (int)+0x3 (/opt/a (b) (deleted))", "f (int)", "/opt/a (b) (deleted)"),
        (b"Object#each (/a.rb:1) (/tmp/perf-12.map)", "Object#each (/a.rb:1)", "/tmp/perf-12.map"),
        (b"[unknown] (./a (x)/bin)", "", "./a (x)/bin"),
        (b"std::function<void (int)>::operator()", "std::function<void (int)>::operator()", ""),
        (b"(/lib/c)", "", "/lib/c"),
    ],
)
def test_names_and_paths_may_have_brackets(frame, name, path):
    assert _split(frame) == (name, "/opt/a dir (x)/bin" if path is None else path)


@pytest.mark.parametrize(
    "data", [b"a;b 1\n", b"make 1 2 3\n", b"root 12 pts/0 ls\n", b"x" * 300, b"all:\n\tcc -c a.c\n"]
)
def test_other_text_is_something_else(data):
    assert foreign_kind(data) != "perf script"


@pytest.mark.parametrize(
    "line",
    [
        b"a " * 200_000,
        b"a 1 " * 100_000,
        b" " * 400_000 + b"x",
        b"a 1" + b" " * 400_000,
        b"\tff x" + b" " * 400_000 + b"y",
        b"a 1 ffffff x" + b" " * 400_000 + b"y",
    ],
)
def test_a_hostile_line_costs_no_more_than_its_length(line):
    began_s = time.process_time()
    foreign_kind(line[: 1 << 16])
    read(FORMS["no chains"] + line + b"\n")
    assert time.process_time() - began_s < 2
