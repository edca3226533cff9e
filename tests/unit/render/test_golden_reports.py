import io

import pytest

from builders.profile import (
    empty_profile,
    hostile_profile,
    interrupted_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from prospect.render.registry import RENDERERS, make_renderer

CASES = {
    "qsort_v2": (qsort_profile, "text", {"detail": "2"}),
    "qsort_v4": (qsort_profile, "text", {"detail": "4"}),
    "qsort_vk": (qsort_profile, "text", {"detail": "k"}),
    "qsort_everything": (
        qsort_profile,
        "text",
        {"detail": "4", "user_threshold_s": 0.0, "kernel_threshold_s": 0.0},
    ),
    "qsort_json": (qsort_profile, "json", {"detail": "2"}),
    "qsort_csv": (qsort_profile, "csv", {"detail": "3"}),
    "interrupted_v4": (interrupted_profile, "text", {"detail": "4"}),
    "interrupted_vk": (interrupted_profile, "text", {"detail": "k"}),
    "interrupted_json": (interrupted_profile, "json", {"detail": "4"}),
    "interrupted_csv": (interrupted_profile, "csv", {"detail": "k"}),
    "perf_two_events": (perf_profile, "text", {}),
    "hostile_names": (hostile_profile, "text", {}),
    "hostile_names_json": (hostile_profile, "json", {}),
    "hostile_names_csv": (hostile_profile, "csv", {}),
    "rowless_hits": (rowless_profile, "text", {"detail": "4"}),
    "no_samples": (empty_profile, "text", {}),
    "no_samples_json": (empty_profile, "json", {}),
    "no_samples_csv": (empty_profile, "csv", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_report_is_as_it_was(case, golden, monkeypatch):
    monkeypatch.setattr("prospect.render.text.header.__version__", "0.1.0")
    monkeypatch.setattr("prospect.render.json.report.__version__", "0.1.0")
    make_profile, name, options = CASES[case]
    out = io.BytesIO()
    make_renderer(name, **options).render(make_profile(), out)
    golden(f"report/{case}{RENDERERS[name].suffix}", out.getvalue())
