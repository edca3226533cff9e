import csv
import io

import pytest

from builders.pages import report_of
from builders.profile import hostile_profile, perf_profile, qsort_profile
from prospect.render.csv import COLUMNS, REMAINDER


def _bytes(profile, **options):
    return report_of(profile, "csv", **options)


def _rows(profile, **options):
    text = _bytes(profile, **options).decode("utf-8", "surrogateescape")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_rows_of_the_talk():
    rows = _rows(qsort_profile())
    assert tuple(rows[0]) == COLUMNS
    assert rows[0] == {
        "event": "cpu-clock",
        "process": "qsort",
        "pid": "1213",
        "parent_pid": "1212",
        "birth": "exec",
        "control_group": "",
        "mode": "user",
        "samples": "145",
        "seconds": "0.56640625",
        "error_seconds": "0.088967449",
        "percent": "37.760417",
        "late_percent": "",
        "address": "0x80484f0",
        "function": "my_compare",
        "binding": "LOCAL",
        "object": "/home/hp/bench/qsort",
        "object_kind": "elf",
        "build_id": "00ff",
        "source": "SYMTAB",
    }


def test_all_rows_add_up_to_all_hits():
    rows = _rows(qsort_profile(), detail="4", user_threshold_s=0.0, kernel_threshold_s=0.0)
    assert sum(int(row["samples"]) for row in rows) == 1014
    assert REMAINDER not in {row["source"] for row in rows}


def test_functions_under_a_threshold_go_into_one_row():
    rows = _rows(qsort_profile())
    assert sum(int(row["samples"]) for row in rows) == 391
    remainders = [(row["mode"], row["samples"]) for row in rows if row["source"] == REMAINDER]
    assert remainders == [("user", "10"), ("kernel", "1")]
    assert sum(float(row["percent"]) for row in rows) == pytest.approx(200.0)


def test_kernel_only_has_the_kernel_rows_of_every_process():
    rows = _rows(qsort_profile(), detail="k", user_threshold_s=0.0, kernel_threshold_s=0.0)
    assert {row["mode"] for row in rows} == {"kernel"}
    assert sum(int(row["samples"]) for row in rows) == 622


def test_names_are_exact_and_quoted_also_those_that_look_like_formulas():
    raw = _bytes(hostile_profile())
    assert b',"=1+1",100,' in raw
    assert b'"@SUM(A1)"' in raw
    assert b"/tmp/a\nb\x1b[31m\xfe.so" in raw
    profile = hostile_profile()
    rows = _rows(profile)
    assert {row["process"] for row in rows} == set(profile.processes.name)
    assert {row["function"] for row in rows} == set(profile.functions.name)


def test_lines_end_as_rfc_4180_says():
    raw = _bytes(qsort_profile())
    assert raw.endswith(b"\r\n")
    assert raw.count(b"\r\n") == raw.count(b"\n")


def test_hits_without_time_have_no_seconds():
    rows = _rows(perf_profile(), detail="4")
    faults = [row for row in rows if row["event"] == "page-faults"]
    assert {row["seconds"] for row in faults} == {""}
    assert {row["mode"] for row in faults} == {"user", "other"}
    assert sum(float(row["percent"]) for row in faults) == pytest.approx(200.0)


def test_a_surrogate_that_stands_for_no_byte_is_written_out():
    profile = hostile_profile()
    profile.processes.name[0] = "\ud800"
    raw = _bytes(profile)
    assert b'"\\ud800"' in raw
    assert b"\xfe.so" in raw
