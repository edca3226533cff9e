"""Each dimension works everywhere: in tables of every format, as classes, of stores, as words."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import prospect.dimensions
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, fill, window_at
from prospect.api.recorded_profile import Profile
from prospect.api.store_part import part_of, read_store
from prospect.cli.commands import COMMANDS
from prospect.cli.option_parser import parse
from prospect.dimensions import (
    BY_NAME,
    COLUMN_DIMENSIONS,
    DIMENSIONS,
    SEPARATIONS,
    SORT_KEYS,
    WORDS,
    kept_for_rows,
    known_dimension,
    known_sort_keys,
)
from prospect.errors import ProspectError
from prospect.figures.hit_keys import SampleColumns, hit_keys, kept_apart
from prospect.profile.complete import complete
from prospect.profile.group_names import service_of
from prospect.profile.model import ENTRY_REASON_NONE, ENTRY_REASON_SOFTIRQ, NO_CPU
from prospect.records import asdict, replace
from prospect.store.file_schema import SAMPLE_KEYS

REPORT = next(command for command in COMMANDS if command.name == "report")
DAEMON = next(command for command in COMMANDS if command.name == "daemon")


def recording():
    """What was recorded on two CPUs: threads with numbers, names and labels, one in a container."""
    profile = stacks_profile()
    groups = [
        f"/docker/{'3f2a' * 16}" if name == "work" else "/system.slice/web.service"
        for name in profile.processes.name
    ]
    labels = (profile.hits.comm_index % 2).astype("int32")
    return Profile(
        **asdict(
            replace(
                profile,
                run=replace(profile.run, started_at=float(BEGIN_S)),
                hits=replace(profile.hits, label_index=labels),
                processes=replace(profile.processes, control_group=groups),
                labels=["", "a request"],
            )
        )
    )


def store(path, windows=2):
    pytest.importorskip("duckdb")
    services = dict(enumerate(map(service_of, recording().processes.control_group)))
    made = [window_at(at, separate=SEPARATIONS, services=services) for at in range(windows)]
    fill(path, made)
    return str(path)


def one_window(path, *apart):
    return read_store(store(path, 1), apart=apart)


def test_a_dimension_has_a_place():
    names = [one.name for one in DIMENSIONS]
    assert len(names) == len(set(names))
    for one in DIMENSIONS:
        assert one.sort or one.columns
        assert one.sort[:1] in ((), (one.name,))
        assert one.columns[:1] in ((), (one.name,))
        assert one.keys or one.samples or one.needs_store
        assert bool(one.samples) <= bool(one.kept_as and one.missing)
        assert set(one.separate) <= set(SEPARATIONS)
        assert one.kept_as in ("", *COLUMN_DIMENSIONS)


@pytest.mark.parametrize("words", ["sort", "columns"])
def test_a_word_means_one_dimension(words):
    known = [word for one in DIMENSIONS for word in getattr(one, words)]
    assert len(known) == len(set(known))
    for one in DIMENSIONS:
        for word in getattr(one, words):
            meant = known_sort_keys([word])[0] if words == "sort" else known_dimension(word)
            assert meant == one.name


@pytest.mark.parametrize("key", SORT_KEYS)
def test_rows_by_it_are_the_same_in_text_json_csv_and_by_each_spelling(key, tmp_path):
    profile, one = recording(), BY_NAME[key]
    if one.needs_store:
        with pytest.raises(ProspectError, match=f"--sort {key} {one.missing}"):
            profile.report(sort=(key,))
        profile = one_window(tmp_path / "s", key)
    rows = json.loads(profile.report(format="json", sort=(key,), detail="4", threshold=None))
    assert rows["keys"] == [key]
    (event,) = rows["events"]
    assert event["samples"] == 30
    assert sum(row["samples"] for row in event["rows"]) + event["left_out"]["samples"] == 30
    for row in event["rows"]:
        assert isinstance(row[key], int if one.is_number else str | None)
    text = profile.report(sort=(key,), detail="4")
    assert one.heading in text
    table = list(csv.DictReader(io.StringIO(profile.report(format="csv", sort=(key,), detail="4"))))
    assert sum(int(row["samples"]) for row in table) == 30
    for word in one.sort:
        assert profile.report(sort=(word,), detail="4") == text
        words = ["--sort", word, *["--store", "s"] * one.needs_store]
        assert parse(REPORT, words)[0].sort == (key,)


@pytest.mark.parametrize("name", COLUMN_DIMENSIONS)
def test_classes_of_it_have_together_what_was_recorded(name, tmp_path):
    one = BY_NAME[name]
    profile = recording()
    if one.needs_store:
        with pytest.raises(ProspectError, match=one.missing):
            profile.columns_table(name)
        profile = read_store(store(tmp_path / "s"), apart=[name])
    hits = int(profile.hits.count.sum())
    table = profile.columns_table(name, detail="4")
    assert sum(
        int(column.sum()) for title, column in table.items() if title.endswith(" samples")
    ) == (hits)
    document = json.loads(
        profile.report(format="json", columns=name, detail="4", user_threshold_s=0.0)
    )
    (found,) = document["tables"]
    assert sum(row["samples"] for row in found["classes"]) == hits
    assert f"by {name}" in profile.report(columns=name, detail="4")
    head = profile.report(format="csv", columns=name, detail="4").splitlines()[0]
    titles = next(csv.reader([head]))
    assert all(f"{name} {one['class']} samples" in titles for one in found["classes"])
    for word in one.columns:
        assert known_dimension(word) == name


def test_a_store_is_not_asked_for_what_is_no_dimension(tmp_path):
    with pytest.raises(ProspectError, match="give one of event, cpu"):
        read_store(store(tmp_path / "s"), apart=["colour"])
    assert read_store(store(tmp_path / "s"), apart=["tid"]).classes.dimensions == ("thread",)


@pytest.mark.parametrize("name", [one.name for one in DIMENSIONS if one.stored and one.columns])
def test_a_store_has_it(name, tmp_path):
    found = read_store(store(tmp_path / "s"), apart=[name])
    table = found.columns_table(name, detail="4")
    assert sum(
        int(column.sum()) for title, column in table.items() if title.endswith(" samples")
    ) == (60)
    if not BY_NAME[name].needs_store and name not in ("hour", "host"):
        of_recording = recording().columns_table(name, detail="4")
        assert {title for title in table if title.endswith(" samples")} == {
            title for title in of_recording if title.endswith(" samples")
        }


@pytest.mark.parametrize("name", [one.name for one in DIMENSIONS if one.samples])
def test_what_samples_do_not_say_is_refused(name):
    one, profile = BY_NAME[name], stacks_profile()
    samples = profile.samples
    unknown = replace(samples, cpu=samples.cpu | NO_CPU, tid=None)
    profile = replace(profile, samples=unknown, run=replace(profile.run, started_at=0.0))
    assert one.samples(SampleColumns(profile)) is None
    if one.columns:
        with pytest.raises(ProspectError, match=f"--columns {one.name}: .*{one.missing}"):
            kept_apart(profile, columns=name)
    if one.keys:
        assert kept_apart(profile, [name]) is profile
    else:
        with pytest.raises(ProspectError, match=f"--sort {one.name}: .*{one.missing}"):
            kept_apart(profile, [name])


STORED = [one.name for one in DIMENSIONS if one.stored and one.sort]


@pytest.mark.parametrize("key", STORED)
def test_rows_of_a_store_are_those_of_the_recording(key, tmp_path):
    def rows(profile):
        text = profile.report(format="json", sort=(key, "cpu"), detail="4", user_threshold_s=0.0)
        found = json.loads(text)["events"][0]["rows"]
        return sorted((str(row[key]), row["cpu"], row["samples"]) for row in found)

    needed, others = kept_for_rows((key, "cpu"), "")
    of_store = rows(one_window(tmp_path / "s", *needed, *others))
    assert sum(samples for *_, samples in of_store) == 30
    if key not in ("hour", "host", "session"):
        assert of_store == rows(recording())


def test_rows_and_columns_differ_in_several_dimensions_of_samples():
    profile = recording()
    table = profile.columns_table("cpu", sort=("tid", "hour"), detail="4")
    samples = profile.samples
    expected = Counter(zip(samples.tid.tolist(), samples.cpu.tolist(), strict=True))
    for row, tid in enumerate(table["tid"].tolist()):
        for cpu in set(samples.cpu.tolist()):
            assert table[f"cpu {cpu} samples"][row] == expected[int(tid), cpu]
    assert len(table["tid"]) == len({tid for tid, _ in expected})


CHOOSING = {
    "event": ("cpu-clock", 30),
    "count": ("3906250", 30),
    "unit-mask": ("0", 30),
    "cpu": ("0", 15),
    "image": ("work", 21),
    "tgid": ("77", 21),
    "comm": ("com?", 21),
    "thread": ("comm", 21),
    "tid": ("77", 21),
    "lib-image": ("*/libc.so*", 1),
    "dependent": ("no", 14),
    "symbol": ("work", 8),
    "exclude-symbol": ("work", 22),
    "service": ("web.*", 9),
    "container": ("3f2a*", 21),
    "session": ("current", None),
    "host": ("*", 30),
    "program": ("work", 21),
    "process": ("77", 21),
    "pid": ("77", 21),
    "object": ("*/libc.so*", 1),
    "dso": ("*/libc.so*", 1),
    "function": ("work", 8),
    "cgroup": ("web.*", 9),
    "mode": ("user", 15),
    "reason": ("re?d", 6),
    "cause": ("idle", 9),
    "label": ("a request", 9),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_chooses_the_same_of_a_recording_and_of_a_store(word, tmp_path):
    value, hits = CHOOSING[word]
    specification = [f"{word}:{value}"]
    if hits is None:
        with pytest.raises(ProspectError, match="needs a store"):
            part_of(recording(), specification)
    else:
        assert part_of(recording(), specification).hits.count.sum() == hits
    known = WORDS[WORDS[word].read[0] if WORDS[word].read else word]
    if not known.column:
        with pytest.raises(ProspectError, match=f"{known.name}: works with recordings"):
            read_store(store(tmp_path / "s"), specification)
        return
    of_store = read_store(store(tmp_path / "s"), specification)
    assert of_store.hits.count.sum() == 2 * (hits or 30)


def test_modes_and_reasons_of_a_store_are_those_of_the_recording(tmp_path):
    profile = complete(recording())
    # Softirqs of ksoftirqd are that thread's own work; others interrupt the process.
    names = [name.replace("swapper", "ksoftirqd/0") for name in profile.processes.name]
    is_ksoftirqd = np.array(names) == "ksoftirqd/0"
    reasons = profile.entry_reasons
    kind = np.where(reasons.kind == ENTRY_REASON_NONE, reasons.kind, ENTRY_REASON_SOFTIRQ)
    profile = replace(
        profile,
        processes=replace(profile.processes, name=names, is_kernel_thread=is_ksoftirqd),
        entry_reasons=replace(reasons, kind=kind.astype(np.uint8)),
    )
    pytest.importorskip("duckdb")
    fill(tmp_path / "s", [window_at(0, profile)])
    for word in ("mode", "reason"):
        keys = hit_keys(profile, word)
        sums = Counter()
        for number, count in zip(keys.number, profile.hits.count, strict=True):
            sums[keys.names[number]] += int(count)
        assert len(sums) > 2
        for name, count in sums.items():
            assert read_store(str(tmp_path / "s"), [f"{word}:{name}"]).hits.count.sum() == count
        with pytest.raises(ProspectError, match=f"{word}: there is .*{max(sums, key=sums.get)}"):
            read_store(str(tmp_path / "s"), [f"{word}:nothing"])


@pytest.mark.parametrize("name", [one.name for one in DIMENSIONS if one.keys])
def test_a_hit_has_one_key_that_has_a_name(name):
    profile = complete(recording())
    keys = hit_keys(profile, name)
    assert len(keys.number) == len(profile.hits)
    assert keys.number.min() >= 0
    assert keys.number.max() < len(keys.names)
    assert all(isinstance(text, str) for text in keys.texts(range(len(profile.hits))))


@pytest.mark.parametrize("name", SEPARATIONS)
def test_the_daemon_keeps_it_apart(name):
    assert name in BY_NAME
    assert BY_NAME[name].stored in SAMPLE_KEYS
    assert parse(DAEMON, ["--separate", name])[0].separate == (name,)


# A dimension that there is not: its entry is all that is added to the program.
LENGTH = """
    Dimension(
        "length",
        sort=("length",),
        columns=("length",),
        words=(Word("length"),),
        keys=lambda hits: hits.named(
            hits.process, [f"{len(name)} letters" for name in hits.profile.processes.name]
        ),
    ),
)
\"\"\"All dimensions"""
WITH_LENGTH = """
import sys, types
source = open(sys.argv[1]).read()
before, end, after = source.partition(')\\n\"\"\"All dimensions')
assert end
found = types.ModuleType("prospect.dimensions")
sys.modules["prospect.dimensions"] = found
exec(compile(before + sys.argv[2].lstrip() + after, "dimensions", "exec"), vars(found))
import prospect
prospect.dimensions = found
from prospect.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


def with_length(*words):
    source = prospect.dimensions.__file__
    done = subprocess.run(
        [sys.executable, "-c", WITH_LENGTH, source, LENGTH, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_new_dimension_is_one_entry(tmp_path):
    path = str(tmp_path / "stacks.folded")
    Path(path).write_text("make;main;parse 5\nmake;main;link 3\nsh;main;link 2\n")
    whole = ("-V4", "-m0", "-k0")
    rows = json.loads(with_length("report", path, "--sort", "length", "--format", "json", *whole))[
        "events"
    ][0]["rows"]
    assert [(row["length"], row["samples"]) for row in rows] == [("4 letters", 8), ("2 letters", 2)]
    text = with_length("report", path, "--columns", "length", *whole)
    assert "by length" in text
    assert "4 letters -" in text
    table = with_length("report", path, "--sort", "length", "--format", "csv", *whole)
    assert [line.split(",")[:3] for line in table.splitlines()[1:]] == [
        ['"samples"', '"4 letters"', "8"],
        ['"samples"', '"2 letters"', "2"],
    ]
    for command in (("report", "--sort", "program"), ("calls",)):
        words = (*command, path, "length:2*", "--format", "json", *whole[:1])
        (event,) = json.loads(with_length(*words))["events"]
        assert event["samples"] == 2
    assert "host, length" in " ".join(with_length("help", "report").split())
