"""Lines of the screen: exactly as wide as it is, whatever is in them."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from builders.live import state_of, with_times
from builders.profile import empty_profile, hostile_profile, interrupted_profile
from builders.sources import CLOCK
from builders.stacks import stacks_profile
from builders.switches import SWITCH, switched_profile
from prospect.tui.drawing import (
    Mode,
    Screen,
    draw_foot,
    draw_head,
    draw_rows,
    draw_status,
    help_lines,
    interval_words,
    run_line,
)
from prospect.tui.figures import live_figures
from prospect.tui.lines import fitted, name_fitted, strip
from prospect.tui.pictures import Cursor, PageState, take_picture
from prospect.tui.rows import CALLERS, PAGES, WAIT_STACKS, Place, Row
from prospect.tui.table_pages import ASCII, CodeMemory, Scale, layout, row_lines, sparkline

WIDTHS = (20, 50, 60, 80, 100, 120, 200)


def text(spans):
    return "".join(span.text for span in spans)


def picture_of(profile, page_state):
    figures = live_figures(state_of(profile, lost=3, limits=("No \x1b[2J samples.",)))
    return take_picture(figures, page_state, CodeMemory(use_cache=False))


def switches_profile():
    return switched_profile(CLOCK, SWITCH, stacks=True)


def lines_of(picture, page_state, width):
    screen = Screen(width, 30)
    return [
        *draw_head(
            picture, page_state, screen, Mode(page_state.words, is_frozen=True, pause_s=9.0)
        ),
        *draw_rows(picture, page_state, screen),
        draw_status(picture, page_state, width),
        draw_foot(picture.page, page_state.place, width),
        *help_lines(("No \x1b[2J samples.",)),
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", [*PAGES, WAIT_STACKS])
@pytest.mark.parametrize("make", [hostile_profile, empty_profile, stacks_profile, switches_profile])
def test_every_line_is_printable_and_of_the_screens_width(make, page, width):
    page_state = PageState(Place(page), words="\x1b[31m" if make is hostile_profile else "")
    for wanted in (page_state, PageState(Place(page))):
        picture = picture_of(make(), wanted)
        for spans in lines_of(picture, wanted, width):
            assert text(spans).isprintable()
            assert strip(spans, width).cell_length == width
            assert cell_len(strip(spans, width).text) == width


def test_markup_in_a_name_is_text():
    row = Row(key=(1,), name="[red]operator[][/red]", process="[b]x", hits=1, seconds=1.0)
    (line,) = row_lines([row], 0, layout("functions", 120), Scale(10.0), cursor=5)
    assert "[red]operator[][/red]" in text(line)
    assert "[b]x" in text(line)


@pytest.mark.parametrize("width", [1, 3, 4, 9, 30])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "name", ["", "abc", "日本語プロセス名", "e\u0301e\u0301", "x\n\x1b[0my", "\u202eabc"]
)
def test_a_name_fills_its_column_exactly(name, width, right):
    found = fitted(name, width, right=right)
    assert cell_len(found) == width
    assert found.isprintable()


def test_a_narrow_screen_drops_what_matters_least():
    titles = {
        width: [column.title for column in layout("functions", width).columns]
        for width in (40, 60, 80, 110, 130)
    }
    assert titles[40] == ["% CPU", "±", "Function"]
    assert titles[60] == ["", "% CPU", "±", "Process", "Function"]
    assert titles[80] == ["", "% CPU", "±", "minute", "Process", "Function"]
    assert "10 s" in titles[110]
    assert titles[110][-1] == titles[130][-1] == "Object"
    assert "Secs" in titles[130]
    recent = [column.title for column in layout("functions", 80, "recent").columns]
    assert "10 s" in recent


def test_a_share_has_the_digits_that_its_bar_supports():
    rows = [
        Row(key=(1,), name="a", hits=9, seconds=1.23456, half_width_s=0.3),
        Row(key=(2,), name="b", hits=9, seconds=0.123456, half_width_s=0.01),
        Row(key=(3,), name="c", hits=9, seconds=5.0),
    ]
    lines = row_lines(rows, 0, layout("functions", 60), Scale(10.0), cursor=0)
    figures = [text(line).split()[1:3] for line in lines]
    assert figures == [["12.3", "3.0"], ["1.23", "0.10"], ["50.0", text(lines[2]).split()[2]]]
    assert interval_words(rows[0], Scale(10.0)) == "12.3 % of a CPU, 95 % sure: 9.3 to 15.3"


def test_the_head_tells_the_run_its_cost_and_its_losses():
    profile = with_times(interrupted_profile(), 83.0)
    page_state = PageState(Place())
    picture = picture_of(profile, page_state)
    run, busy, tabs, _ = (
        text(line) for line in draw_head(picture, page_state, Screen(160, 9), Mode())
    )
    for part in (
        "fctype2",
        "2 CPUs",
        "256 Hz",
        "1:23",
        "2,000 samples",
        "3 samples lost",
        "itself 0.7",
    ):
        assert part in run
    seconds = 500 / 256 / (2 * 83.0) * 100
    assert f"user {seconds:.1f}" in busy
    assert "1 Functions" in tabs


def test_a_page_without_rows_says_why():
    for page_state, words in (
        (PageState(words="zzz"), "Nothing here has 'zzz' in its name"),
        (PageState(), "Waiting for the first samples"),
    ):
        profile = interrupted_profile() if page_state.words else empty_profile()
        lines = draw_rows(picture_of(profile, page_state), page_state, Screen(80, 9))
        assert words in "".join(map(text, lines))


def test_the_status_line_says_in_words_how_sure_the_chosen_row_is():
    page_state = PageState(cursor=Cursor(row=1))
    picture = picture_of(with_times(interrupted_profile(), 40.0), page_state)
    row = picture.page.rows[1]
    status = text(draw_status(picture, page_state, 120))
    assert status.startswith(row.name)
    assert interval_words(row, Scale(40.0)) in status


def test_callers_of_a_hostile_name_are_harmless_too():
    picture = picture_of(hostile_profile(), PageState())
    for row in picture.page.rows[:3]:
        page_state = PageState(Place(CALLERS, function=row.target.function))
        for spans in lines_of(picture_of(hostile_profile(), page_state), page_state, 80):
            assert text(spans).isprintable()


@pytest.mark.parametrize(
    ("history", "width", "line"),
    [
        ((0, 8, 16, 4), 4, " ▄█▂"),
        ((-1, -1, 1, 0), 4, "  ▁ "),
        ((8, 8, 0, 0), 2, "█ "),
        ((), 4, ""),
    ],
)
def test_a_history_is_drawn_from_nothing_to_its_peak(history, width, line):
    assert sparkline(history, width) == line


def test_a_history_without_blocks():
    assert sparkline((0, 8, 16), 3, ASCII) == " =%"


def test_a_name_keeps_what_tells_it_from_its_neighbours():
    name = "sqlite3ValueBytes->sqlite3VdbeSorterInit [fn 7 of 12]"
    assert name_fitted(name, 38) == "[fn 7 of 12]".ljust(38)
    assert name_fitted("void a::b<int>(int)", 10, "  ") == "  a::b    "
    assert name_fitted(name, 60) == name.ljust(60)
    for other in (
        "x" * 50 + " [fn \x1b[2J",
        "[fn 日本語日本語] [fn 1]",
        "y" * 30 + " [fn " * 9,
    ):
        for width in (1, 5, 16, 38):
            assert cell_len(name_fitted(other, width)) == width
            assert name_fitted(other, width).isprintable()


@pytest.mark.parametrize(
    ("own", "seconds", "pause", "there", "absent"),
    [
        (0.7, 83.0, 2.0, "itself 0.7 + sampling 0.4 % of a CPU", "to begin"),
        (9.0, 5.0, 2.0, "itself 9.0 + sampling 0.4 % of a CPU to begin", "every"),
        (9.0, 83.0, 14.6, "itself 9.0 + sampling 0.4 % of a CPU, new every 15 s", "to begin"),
    ],
)
def test_the_head_tells_why_figures_come_seldom(own, seconds, pause, there, absent):
    figures = live_figures(
        state_of(with_times(interrupted_profile(), seconds), own_cpu_percent=own)
    )
    line = text(run_line(figures, Mode(pause_s=pause), 160))
    assert there in line
    assert absent not in line


def test_a_cost_that_could_not_be_measured_is_not_said_to_be_none():
    state = state_of(interrupted_profile(), sampling_cpu_percent=0.0)
    assert "sampling" not in text(run_line(live_figures(state), Mode(), 160))


def test_lost_switches_are_not_called_samples():
    figures = live_figures(state_of(switches_profile(), lost=3))
    assert "3 samples and switches lost" in text(run_line(figures, Mode(), 160))


def test_a_narrow_screen_says_how_sure_a_row_is_too():
    row = Row(key=(1,), name="a", hits=9, seconds=1.23456, half_width_s=0.3)
    assert interval_words(row, Scale(10.0), is_short=True) == "12.3 % ± 3.0"
