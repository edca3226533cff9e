"""Any text behind --event is events, or an error of ours."""

from hypothesis import given
from hypothesis import strategies as st

from prospect.capture.events.event_parsing import parse_events
from prospect.errors import ProspectError

PARTS = st.sampled_from(
    [
        "cycles",
        "{",
        "}",
        ",",
        ":u",
        "/",
        "cpu/",
        "event=",
        "0x1",
        "period=",
        '"',
        "'",
        "/dev/null",
        "sched:",
        "sched_switch",
        "r1",
        "+0x",
        "%return",
        "\n",
        "\x1b",
        "=",
        "-",
        "é",
    ]
)


@given(st.lists(st.one_of(PARTS, st.text(max_size=4)), max_size=10))
def test_any_text(parts):
    try:
        events = parse_events("".join(parts))
    except ProspectError:
        return
    assert events
