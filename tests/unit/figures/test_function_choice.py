import pytest

from builders.annotated import annotated_loop
from builders.profile_builder import ProfileBuilder
from prospect.errors import UsageError
from prospect.figures.function_choice import FunctionChoice, choose_functions
from prospect.profile.model import CPUMODE_KERNEL, KIND_KERNEL
from prospect.profile.naming import NameSource
from prospect.records import replace


def chosen(profile, what="", **options):
    rows = choose_functions(profile, FunctionChoice(what, **options))
    return [profile.functions.name[row] for row in rows]


@pytest.fixture
def profile():
    return annotated_loop()


def test_the_hottest_functions_of_the_command_come_first(profile):
    assert chosen(profile) == ["work", "compiled", "handle_fault"]
    assert chosen(profile, most=1) == ["work"]


def test_detail_says_whose_hits_count(profile):
    assert chosen(profile, detail="4") == ["work", "helper", "compiled", "handle_fault"]
    assert chosen(profile, detail="k") == ["handle_fault"]


def test_functions_under_the_thresholds_are_left_out(profile):
    # 12 hits of 256 a second are 0.047 s, 8 are 0.031 s.
    assert chosen(profile, user_threshold_s=0.05) == ["work", "handle_fault"]
    assert chosen(profile, kernel_threshold_s=0.05) == ["work", "compiled"]


def test_a_function_that_is_named_passes_every_threshold(profile):
    options = {"user_threshold_s": 99.0, "kernel_threshold_s": 99.0, "most": 1}
    assert chosen(profile, "compiled", **options) == ["compiled"]
    assert chosen(profile, "*o*", **options) == ["work", "compiled"]


@pytest.mark.parametrize("what", ["/bin/loop", "loop", "/bin/*", "lo?p"])
def test_an_image_means_its_hottest_functions(profile, what):
    assert chosen(profile, what) == ["work"]
    assert chosen(profile, what, detail="4") == ["work", "helper"]
    assert chosen(profile, what, detail="4", most=1) == ["work"]


def test_a_name_wins_over_a_pattern_and_a_function_over_an_image():
    build = ProfileBuilder()
    command = build.process("x", 1, is_command=True)
    image = build.object("/bin/f")
    rows = [build.function(name, image, 64 * i) for i, name in enumerate(("f", "a[f]", "af", "g"))]
    for row in rows:
        build.hit(command, row, 100)
    profile = build.build()
    assert chosen(profile, "f") == ["f"]
    assert chosen(profile, "a[f]") == ["a[f]"]
    assert chosen(profile, "a[fg]") == ["af"]
    assert chosen(profile, "/bin/f") == ["f", "a[f]", "af", "g"]


def test_a_name_may_be_mangled_or_lack_its_parameters_or_be_an_alias():
    build = ProfileBuilder()
    command = build.process("x", 1, is_command=True)
    image = build.object("/bin/x")
    row = build.function(
        "W::go(int (*)(char))", image, 0, linkage_name="_ZN1W2goEPFicE", aliases=("other(int)",)
    )
    build.hit(command, row, 100)
    profile = build.build()
    for what in ("W::go(int (*)(char))", "W::go", "_ZN1W2goEPFicE", "other", "W::*"):
        assert chosen(profile, what) == ["W::go(int (*)(char))"]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("wrok", "did you mean work?"),
        ("nothing like it", "no function and no image with samples is called 'nothing like it'"),
        ("helper", "in other processes only: annotate with -V 4"),
    ],
)
def test_what_is_not_there_is_said(profile, what, says):
    with pytest.raises(UsageError) as refused:
        chosen(profile, what)
    assert says in str(refused.value)


def test_the_recording_is_named_if_it_lacks_the_function(profile):
    run = replace(profile.run, command=("./lock", "-v"))
    with pytest.raises(UsageError, match=r"'nothing like it' in the recording of '\./lock'$"):
        chosen(replace(profile, run=run), "nothing like it")


def test_samples_without_names_are_named_as_a_cause():
    build = ProfileBuilder()
    command = build.process("x", 1, is_command=True)
    gone = build.object("/bin/x", source=NameSource.NO_FILE)
    build.hit(command, build.function("", gone, 0, source=NameSource.NO_FILE), 300)
    build.hit(command, build.function("work", build.object("/bin/y"), 0), 100)
    with pytest.raises(UsageError) as refused:
        chosen(build.build(), "inner")
    assert str(refused.value) == (
        "no function and no image with samples is called 'inner'; 75% of samples have no name"
        " (file gone: --sysroot DIR or DEBUGINFOD_URLS)"
    )


def test_every_process_counts_where_no_command_is_known():
    build = ProfileBuilder()
    some = build.process("x", 1)
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    build.hit(some, build.function("idle", kernel, 0), 100, CPUMODE_KERNEL)
    assert chosen(build.build()) == ["idle"]


def test_hits_without_a_place_are_no_function():
    build = ProfileBuilder()
    build.hit(build.process("x", 1, is_command=True), -1, 100)
    assert chosen(build.build()) == []


def test_a_part_of_a_name_means_the_hottest_with_it():
    build = ProfileBuilder()
    image = build.object("/bin/x")
    process = build.process("x", 100, is_command=True)
    for number, name in enumerate(("ns::sort_up(int)", "ns::sort_down(sorter)", "other(sort)")):
        build.hit(process, build.function(name, image, 64 * number), 10 + number)
    profile = build.build()
    assert chosen(profile, "sort") == ["ns::sort_down(sorter)", "ns::sort_up(int)"]
    assert chosen(profile, "sort", most=1) == ["ns::sort_down(sorter)"]
