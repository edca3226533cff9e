from builders.profile import ProfileBuilder, empty_profile, qsort_profile, rowless_profile, run_info
from prospect.profile.complete import complete
from prospect.profile.counters import run_counters


def test_the_counters_of_the_talk():
    counters = run_counters(qsort_profile())
    expected = {
        "samples": 1014,
        "system_hits": 622,
        "user_hits": 392,
        "unknown_hits": 0,
        "recorder_hits": 3,
        "kernel_module_hits": 1,
        "kernel_hits": 622,
        "process_0_hits": 611,
        "process_0_unique": 2,
        "hits_per_buffer": 338.0,
        "buffers_read": 3,
        "processes": 6,
        "kernel_threads": 1,
    }
    assert {name: counters[name] for name in expected} == expected


def test_two_hits_of_one_instruction_are_one_unique_address():
    # do_anonymous_page was hit at two instructions, schedule in three processes at one.
    assert run_counters(qsort_profile())["kernel_unique"] == 5


def test_user_system_and_unknown_hits_are_all_samples():
    for profile in (qsort_profile(), complete(rowless_profile()), empty_profile()):
        counters = run_counters(profile)
        parts = ("user_hits", "system_hits", "unknown_hits")
        assert sum(counters[name] for name in parts) == counters["samples"]


def test_what_is_not_known_is_left_out():
    counters = run_counters(empty_profile())
    assert "recorder_hits" not in counters
    assert "buffers_read" not in counters
    assert "lost" not in counters


def test_losses_are_summed_over_cpus():
    build = ProfileBuilder(run_info(statistics={"lost": 1}))
    build.losses += [(0, 5, 1), (3, 7, 0)]
    counters = run_counters(build.build())
    assert (counters["lost"], counters["throttled"]) == (12, 1)
