import random

from prospect.render.text.listing import ASCII, BOXES, _lanes, draw_arrows


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


def test_each_jump_has_the_first_lane_where_it_shares_no_row():
    random_ = random.Random(6)
    for _ in range(200):
        jumps = [(random_.randrange(60), random_.randrange(60)) for _ in range(40)]
        expected = []
        for jump in jumps:
            rows = range(min(jump), max(jump) + 1)
            for lane in expected:
                if not any(
                    row in rows for other in lane for row in range(min(other), max(other) + 1)
                ):
                    lane.append(jump)
                    break
            else:
                if len(expected) < 6:
                    expected.append([jump])
        assert _lanes(jumps) == expected


def test_a_range_without_names_may_have_any_number_of_jumps():
    drawn = draw_arrows(300_000, [(row, row + 2) for row in range(0, 299_990, 3)], ASCII)
    assert len(drawn) == 300_000
