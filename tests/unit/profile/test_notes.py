"""Notes on files: one for all that were replaced, and only of those that are shown."""

from __future__ import annotations

from builders.profile_builder import ProfileBuilder, run_info
from prospect.figures.remarks import limits_of
from prospect.profile.complete import complete
from prospect.profile.run_info import file_notes, grouped, replaced_note

OTHER = "The kernel hides its addresses."


def test_replaced_files_have_one_note_behind_the_others():
    notes = [*map(replaced_note, ["/a", "/b", "/c", "/d", "/e", "/a"]), OTHER]
    other, replaced = file_notes(notes)
    assert other == OTHER
    assert replaced.startswith("5 files were replaced since they ran")
    assert replaced.endswith("no names: /a, /b, /c and 2 more.")
    assert file_notes(notes, {"/a", "/c"})[1].endswith("no names: /a and /c.")
    assert file_notes(notes, {"/d"}) == [OTHER, replaced_note("/d")]
    assert file_notes(notes, ()) == [OTHER]


def test_files_below_a_chosen_directory_have_a_note_that_names_it():
    notes = [replaced_note(path, "/image") for path in ("/a", "/b")] + [replaced_note("/c"), OTHER]
    assert file_notes(notes) == [
        OTHER,
        (
            "--sysroot /image: 2 files have other build ids than the recorded files, "
            "so their functions have no names: /a and /b."
        ),
        replaced_note("/c"),
    ]
    assert file_notes(notes, {"/b"}) == [
        OTHER,
        (
            "--sysroot /image: /b has another build id than the recorded file, "
            "so its functions have no names."
        ),
    ]


def test_files_of_one_reason_are_named_together():
    reasons = [("/a", "no lines"), ("/b", "gone"), ("/c", "no lines"), ("/c", "no lines")]
    assert grouped(reasons) == ["2 files: no lines: /a and /c.", "/b: gone."]


def test_a_report_has_notes_on_the_files_of_its_own_rows():
    notes = (replaced_note("/bin/work"), replaced_note("/bin/other"), OTHER)
    build = ProfileBuilder(run_info(command=("work",), limits=notes))
    for name, pid in (("work", 7), ("other", 8)):
        image = build.object(f"/bin/{name}")
        process = build.process(name, pid, is_command=name == "work")
        build.hit(process, build.function("main", image, 0x1000), 5)
    profile = complete(build.build())
    assert limits_of(profile, "2") == (OTHER, replaced_note("/bin/work"))
    assert "2 files were replaced" in limits_of(profile, "4")[1]
