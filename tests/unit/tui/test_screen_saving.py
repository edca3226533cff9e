"""What `prospect top` asks and says as it saves what was recorded."""

from __future__ import annotations

from builders.screen import look, session_of


def test_save_proposes_a_name_and_never_overwrites_unasked(interrupted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = session_of(interrupted)

    async def act(person):
        await person.press("s")
        assert "Save the recording as: prospect-2" in person.lines[-1]
        await person.press("enter")
        (name,) = session.saved
        assert name.endswith(".data")
        assert f"all is in {name}" in person.lines[-2]
        (tmp_path / "x.d").write_bytes(b"kept")
        await person.press("s", "ctrl+u", *"x.d", "enter")
        assert "x.d is there already. Replace it?" in person.lines[-1]
        await person.press("n", "enter")
        assert len(session.saved) == 1
        await person.press("s", "ctrl+u", *"x.d", "enter", "y", "enter")
        assert session.saved[1:] == ["x.d"]
        await person.press("s", "ctrl+u", "enter", "s", "escape", "s", "ctrl+c")
        assert len(session.saved) == 2
        assert "quit" in person.lines[-1]

    look(session, act)
    assert [path.name for path in tmp_path.iterdir()] == ["x.d"]


def test_a_directory_is_no_file_to_replace_and_home_is_known(interrupted, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    session = session_of(interrupted)

    async def act(person):
        await person.press("s", "ctrl+u", "d", "enter")
        assert "'d' is a directory" in person.lines[-2]
        await person.press("s", "ctrl+u", *"~/x", "enter")
        assert session.saved == [f"{tmp_path}/x"]

    look(session, act)


def test_what_cannot_be_saved_is_said_and_the_screen_goes_on(interrupted):
    session = session_of(interrupted)
    session.refuses = "cannot record to 'x': No space left on device"

    async def act(person):
        await person.press("s", "enter")
        assert session.refuses in person.lines[-2]
        await person.press("2")
        assert "cpuspin" in person.text

    look(session, act)
