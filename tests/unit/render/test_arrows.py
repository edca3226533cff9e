import random

from prospect.render.text.arrows import ASCII, BOXES, draw_arrows


def test_a_loop_leads_back_to_its_first_row():
    assert draw_arrows(4, [(3, 1)], ASCII) == ["   ", ".> ", "|  ", "'- "]


def test_box_characters_draw_the_same():
    assert draw_arrows(4, [(3, 1)], BOXES) == ["   ", "┌▶ ", "│  ", "└─ "]


def test_short_jumps_run_inside_long_ones():
    assert draw_arrows(5, [(0, 4), (3, 1)], ASCII) == [".-- ", "|.> ", "||  ", "|'- ", "'-> "]


def test_jumps_that_do_not_meet_share_a_lane():
    drawn = draw_arrows(6, [(0, 2), (3, 5)], ASCII)
    assert drawn == [".- ", "|  ", "'> ", ".- ", "|  ", "'> "]


def test_without_jumps_there_is_no_margin():
    assert draw_arrows(3, [], ASCII) == ["", "", ""]


def test_a_jump_to_itself_is_one_row():
    assert draw_arrows(2, [(1, 1)], ASCII) == ["   ", "+> "]


def test_any_jumps_give_rows_of_one_width_and_few_lanes():
    random_ = random.Random(5)
    for _ in range(200):
        rows = random_.randrange(1, 40)
        jumps = [(random_.randrange(rows), random_.randrange(rows)) for _ in range(30)]
        drawn = draw_arrows(rows, jumps, ASCII)
        assert len(drawn) == rows
        assert len(set(map(len, drawn))) == 1
        assert len(drawn[0]) <= 8
        assert set("".join(drawn)) <= set("|-.'+> ")
