import pytest

from builders.pages import report_of
from builders.profile import (
    empty_profile,
    hostile_profile,
    interrupted_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.stacks import lined_stacks_profile, stacks_profile
from prospect.render.next_commands import Repeated

CASES = {
    "qsort_v2": (qsort_profile, "text", {"detail": "2", "repeated": Repeated(("qsort",))}),
    "qsort_v4": (qsort_profile, "text", {"detail": "4"}),
    "qsort_vk": (qsort_profile, "text", {"detail": "k"}),
    "qsort_everything": (
        qsort_profile,
        "text",
        {"detail": "4", "user_threshold_s": 0.0, "kernel_threshold_s": 0.0},
    ),
    "qsort_sorted": (qsort_profile, "text", {"sort": ("program", "object")}),
    "hostile_names_sorted": (hostile_profile, "text", {"sort": ("program", "object", "function")}),
    "qsort_json": (qsort_profile, "json", {"detail": "2", "recording": "a b.data"}),
    "qsort_csv": (qsort_profile, "csv", {"detail": "3"}),
    "interrupted_v4": (interrupted_profile, "text", {"detail": "4"}),
    "interrupted_vk": (interrupted_profile, "text", {"detail": "k"}),
    "interrupted_json": (interrupted_profile, "json", {"detail": "4"}),
    "interrupted_csv": (interrupted_profile, "csv", {"detail": "k"}),
    "perf_two_events": (perf_profile, "text", {}),
    "hostile_names": (hostile_profile, "text", {"repeated": Repeated(("\x1b[2J", "\udcff"))}),
    "hostile_names_json": (hostile_profile, "json", {}),
    "hostile_names_csv": (hostile_profile, "csv", {}),
    "rowless_hits": (rowless_profile, "text", {"detail": "4"}),
    "stacks_folded": (stacks_profile, "folded", {"detail": "4"}),
    "stacks_svg": (stacks_profile, "svg", {"detail": "4"}),
    "stacks_speedscope": (stacks_profile, "speedscope", {}),
    "stacks_callgrind": (lined_stacks_profile, "callgrind", {"inline": True}),
    "stacks_firefox": (lined_stacks_profile, "firefox", {"inline": True}),
    "stacks_chrome": (stacks_profile, "chrome", {"detail": "4"}),
    "hostile_names_folded": (hostile_profile, "folded", {}),
    "hostile_names_svg": (hostile_profile, "svg", {}),
    "no_samples": (empty_profile, "text", {}),
    "no_samples_json": (empty_profile, "json", {}),
    "no_samples_csv": (empty_profile, "csv", {}),
}

SUFFIXES = {
    "text": "txt",
    "speedscope": "speedscope.json",
    "firefox": "profile.json",
    "chrome": "trace.json",
}


@pytest.mark.parametrize("case", CASES)
def test_report_is_as_it_was(case, golden):
    make_profile, name, options = CASES[case]
    golden(f"report/{case}.{SUFFIXES.get(name, name)}", report_of(make_profile(), name, **options))
