"""What holds between the figures of any report, whatever was recorded."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

MODES = ("user", "kernel", "interrupt", "other")


def document(profile: Any, detail: str, threshold_s: float = 0.0) -> dict[str, Any]:
    """Return the JSON report."""
    text = profile.report(
        format="json",
        detail=detail,
        user_threshold_s=threshold_s,
        kernel_threshold_s=threshold_s,
    )
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def check_sums(profile: Any) -> None:
    """Assert that a profile's reports add up, for each `-V`, with and without thresholds."""
    shown = []
    for detail in "234k":
        for threshold_s in (0.0, 0.02):
            found = document(profile, detail, threshold_s)
            _check_statistics(found, profile)
            for event in found["events"]:
                _check_event(event)
                # Where no command is known, -V 2 and 3 show all there is.
                _check_quality(event, found["options"]["detail"], is_whole=not threshold_s)
        rows = document(profile, detail)["events"]
        if detail == "k":
            for event in rows:
                _check_kernel_profiles(event)
        else:
            shown.append({_figures(row) for event in rows for row in event["details"]})
    assert shown[0] <= shown[1] <= shown[2]
    _check_tables(profile)


def _figures(details: dict[str, Any]) -> str:
    return json.dumps(details, sort_keys=True)


def _check_statistics(found: dict[str, Any], profile: Any) -> None:
    counts = found["statistics"]
    assert counts["samples"] == int(profile.hits.count.sum())
    assert (
        counts["user_samples"] + counts["system_samples"] + counts["unknown_samples"]
        == counts["samples"]
    )
    parts = ("kernel_thread_samples", "user_kernel_samples", "process_0_samples")
    assert sum(counts[part] for part in parts) <= counts["kernel_samples"]
    assert counts["kernel_samples"] == counts["system_samples"]
    of_events = [event["total"][part]["samples"] for event in found["events"] for part in MODES]
    assert sum(of_events) == counts["samples"]


def _check_event(event: dict[str, Any]) -> None:
    for mode in MODES:
        for figure in ("samples", "seconds"):
            rows = sum(process[mode][figure] for process in event["processes"])
            rest = event["processes_skipped"][mode][figure]
            assert rows + rest == pytest.approx(event["total"][mode][figure], abs=1e-6)
        for process in event["details"]:
            table = process["functions"][mode]
            assert table["samples"] == process[mode]["samples"]
            _check_table(table)
    _check_entry_reasons(event["kernel_entry_reasons"], event["total"])
    for process in event["details"]:
        _check_entry_reasons(process["kernel_entry_reasons"], process)
    for table in event["kernel_profiles"]:
        _check_table(table)


def _check_quality(event: dict[str, Any], detail: str, *, is_whole: bool) -> None:
    """Assert that the quality of symbols is that of every hit of what `-V` asks for."""
    quality = event["symbol_quality"]
    everything = sum(event["total"][mode]["samples"] for mode in MODES)
    shown = sum(process[mode]["samples"] for process in event["details"] for mode in MODES)
    assert shown <= quality["samples"] <= everything
    if detail in "4k":
        assert quality["samples"] == everything
    elif is_whole:
        assert quality["samples"] == shown
    assert quality["samples"] == sum(source["samples"] for source in quality["sources"])
    named = sum(source["samples"] for source in quality["sources"] if source["named"])
    assert quality["named_samples"] == named


def _check_entry_reasons(entry_reasons: dict[str, Any] | None, totals: dict[str, Any]) -> None:
    """Assert that times by entry reason add up; and that only told ones are interrupts."""
    if entry_reasons is None:
        assert totals["interrupt"]["samples"] == 0
        return
    for figure in ("samples", "seconds"):
        rows = sum(row[figure] for row in entry_reasons["rows"])
        kernel = totals["kernel"][figure] + totals["interrupt"][figure]
        assert rows + entry_reasons["skipped"][figure] == pytest.approx(
            entry_reasons[figure], abs=1e-6
        )
        assert entry_reasons[figure] == pytest.approx(kernel, abs=1e-6)
    if not entry_reasons["skipped"]["entry_reasons"]:
        by_kind = {"interrupt": 0, "softirq": 0}
        for row in entry_reasons["rows"]:
            by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + row["samples"]
        assert by_kind["interrupt"] <= totals["interrupt"]["samples"]
        assert totals["interrupt"]["samples"] <= by_kind["interrupt"] + by_kind["softirq"]


def _check_table(table: dict[str, Any]) -> None:
    for figure in ("samples", "seconds"):
        rows = sum(row[figure] for row in table["rows"])
        assert rows + table["skipped"][figure] == pytest.approx(table[figure], abs=1e-6)
    has_weight = any(row["share"] for row in table["rows"])  # not where all periods are 0
    if has_weight and not table["skipped"]["functions"]:
        assert table["rows"][-1]["accumulated"] == pytest.approx(1.0)


def _check_kernel_profiles(event: dict[str, Any]) -> None:
    """Assert that the first kernel profile is the sum of the others, function by function."""
    whole, *parts = (_by_function(profile) for profile in event["kernel_profiles"])
    assert len(parts) >= 3
    added: dict[Any, int] = {}
    for part in parts:
        for function, hits in part.items():
            added[function] = added.get(function, 0) + hits
    assert added == whole
    total = event["total"]
    assert sum(whole.values()) == total["kernel"]["samples"] + total["interrupt"]["samples"]


def _by_function(profile: dict[str, Any]) -> dict[Any, int]:
    rows: dict[Any, int] = {}
    for row in profile["rows"]:
        key = row["object"], row["address"], row["linkage_name"], row["source"]
        rows[key] = rows.get(key, 0) + row["samples"]
    return rows


def _check_tables(profile: Any) -> None:
    """Assert that the tables of the Python interface tell of all samples as well."""
    samples = int(profile.hits.count.sum())
    assert int(profile.hits_table(detail="4")["samples"].sum()) == samples
    assert int(profile.functions_table(detail="4")["samples"].sum()) == samples
    processes = profile.processes_table(detail="4")
    mode = profile.hits_table(detail="4")["mode"]
    for name in ("user", "kernel", "interrupt"):
        expected = profile.hits_table(detail="4")["samples"][mode == name].sum()
        assert processes[f"{name}_samples"].sum() == expected
    user_rows = profile.hits.mode == 2
    mapped = int(profile.mappings_table(detail="4")["samples"].sum())
    assert mapped <= int(profile.hits.count[np.asarray(user_rows)].sum())
