"""A store over time as a page: a bar for each stretch, and links that choose a span of them.

The page has no script. Two clicks choose a span; links then show it, zoom into it, or compare it
with another one.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from prospect.records import NamedTuple, Record
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Span = tuple[int, int]

_WIDTH, _HEIGHT, _FOOT = 1000, 180, 22
_TICKS = 6
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --bar: #4a7fd0; --lost: #d9483b; --on: #c2410c; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem;
  padding: 0 1rem; }
svg { width: 100%; border: 1px solid var(--line); }
.bar { fill: var(--bar); } .lost { fill: var(--lost); } .on { fill: var(--on); }
.a { fill: #2fa36b; } .a, .on { fill-opacity: .45; pointer-events: none; }
.all { fill: transparent; }
a:hover .all { fill: var(--line); }
text { font-size: 11px; fill: currentColor; } p { overflow-wrap: anywhere; } .q { opacity: .75; }
.do a, .do b { margin-right: 1.5rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .1rem .8rem .1rem 0; text-align: left; overflow-wrap: anywhere; }
th { border-bottom: 1px solid var(--line); } tbody tr:hover { background: #8882; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
svg.share { width: 7.5rem; border: 0; vertical-align: middle; }
.error { fill: none; stroke: currentColor; }
"""


class Bar(NamedTuple):
    """A measured stretch: begin and end, and the parts of its ticks, 0 to 1, busy and lost."""

    begin_s: int
    end_s: int
    busy: float
    lost: float


class Choice(NamedTuple):
    """The choices so far, each in seconds since 1970.

    Attributes:
        view: the part of the time that is shown, None for all.
        begin: of a span whose end is not chosen yet.
        span: the chosen span.
        other: the span that is kept for comparison.
    """

    view: Span | None = None
    begin: int | None = None
    span: Span | None = None
    other: Span | None = None

    def address(self) -> str:
        """Return the page's address with this choice, relative to the store's."""
        fields = []
        for name, value in zip(self._fields, self, strict=True):
            if isinstance(value, tuple):
                fields.append(f"{name}={value[0]}_{value[1]}")
            elif value is not None:
                fields.append(f"{name}={value}")
        return "?" + "&".join(fields)


class TimelinePage(Record):
    """A page.

    Attributes:
        begin_s, end_s: of the axis, in seconds since 1970.
        step_s: length of each bar's stretch, unless a window is longer.
        questions: addresses and titles of questions about all hosts.
    """

    title: str
    begin_s: int
    end_s: int
    step_s: int
    bars: Sequence[Bar]
    remarks: Sequence[str]
    choice: Choice
    questions: Sequence[tuple[str, str]] = ()

    def document(self) -> bytes:
        """Return the page."""
        remarks = "".join(f'<p class="q">{shown(one)}</p>' for one in self.remarks)
        advice = "Click where a span begins, then where it ends."
        if self.choice.begin is not None:
            advice = f"From {_clock(self.choice.begin)}: click where the span ends."
        body = (
            f"<h1>{shown(self.title)}</h1><p>Busy CPUs over time, each bar {_length(self.step_s)};"
            f" red is lost, empty was not measured. {advice}</p>"
            f"{''.join(self._picture())}{self._actions()}{self._questions()}{remarks}"
        )
        return page_of(body)

    def _picture(self) -> Iterator[str]:
        label = "CPU use over time"
        height = _HEIGHT + _FOOT
        yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">'
        for bar in self.bars:
            left = self._at(bar.begin_s)
            width = self._at(bar.end_s) - left
            tall, red = (min(max(part, 0.0), 1.0) * _HEIGHT for part in (bar.busy, bar.lost))
            long_s = bar.end_s - bar.begin_s
            length = f" for {_length(long_s)}" if long_s > self.step_s else ""
            title = (
                f"{_clock(bar.begin_s)}{length}: {100 * bar.busy:.0f} % busy,"
                f" {100 * bar.lost:.2f} % lost"
            )
            yield f'<a href="{escape(self._clicked(bar))}"><title>{title}</title>'
            yield _rect("bar", left, _HEIGHT - tall, max(width - 0.5, 0.5), tall)
            if red:
                yield _rect("lost", left, 0, max(width - 0.5, 0.5), max(red, 2))
            yield _rect("all", left, 0, width, _HEIGHT) + "</a>"
        for name, span in (("a", self.choice.other), ("on", self.choice.span)):
            if span:
                left, right = (self._at(end) for end in span)
                yield _rect(name, left, 0, right - left, _HEIGHT)
        for tick in range(_TICKS):
            at = self.begin_s + (self.end_s - self.begin_s) * tick // _TICKS
            yield f'<text x="{self._at(at):.1f}" y="{_HEIGHT + 15}">{_clock(at)}</text>'
        yield "</svg>"

    def _at(self, moment_s: int) -> float:
        share = (moment_s - self.begin_s) / max(self.end_s - self.begin_s, 1)
        return _WIDTH * min(max(share, 0.0), 1.0)

    def _clicked(self, bar: Bar) -> str:
        began = self.choice.begin
        if began is None:
            return self.choice._replace(begin=bar.begin_s, span=None).address()
        last_end_s = next((one.end_s for one in self.bars if one.begin_s == began), 0)
        last_end_s = max(last_end_s, began + self.step_s, bar.end_s)
        span = (min(began, bar.begin_s), last_end_s)
        return self.choice._replace(begin=None, span=span).address()

    def _actions(self) -> str:
        choice, links = self.choice, []
        if span := choice.span:
            links.append(
                (f"part/{span[0]}_{span[1]}/", f"Show {_clock(span[0])} to {_clock(span[1])}")
            )
            links.append((Choice(view=span, other=choice.other).address(), "Zoom in"))
            if (other := choice.other) and other != span:
                pair = f"{other[0]}_{other[1]}/{span[0]}_{span[1]}"
                links.append((f"diff/{pair}/", f"Compare {_clock(other[0])} with it"))
            links.append((choice._replace(span=None, other=span).address(), "Keep it as A"))
        elif choice.other:
            links.append(("?", f"Forget A, {_clock(choice.other[0])} to {_clock(choice.other[1])}"))
        if choice.view:
            links.append((Choice(other=choice.other).address(), "All of the store"))
        return f'<p class="do">{"".join(link_to(*link) for link in links)}</p>'

    def _questions(self) -> str:
        if not self.questions:
            return ""
        scope = "All hosts in this span" if self.choice.span else "All hosts"
        return f'<p class="do">{scope}: {"".join(link_to(*one) for one in self.questions)}</p>'


def page_of(body: str) -> bytes:
    """Return a document with the style of these pages; it loads nothing."""
    style = b64encode(sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{_STYLE}</style>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Prospect</title></head><body>{body}</body></html>\n"
    ).encode("utf-8", "backslashreplace")


def error_page(sentence: str) -> bytes:
    """Return a page with the reason that there is nothing to show."""
    return page_of(f"<h1>Prospect</h1><p>{shown(sentence)}</p>")


def _rect(name: str, left: float, top: float, width: float, height: float) -> str:
    return (
        f'<rect class="{name}" x="{left:.2f}" y="{top:.2f}" width="{width:.2f}"'
        f' height="{height:.2f}"/>'
    )


def link_to(address: str, text: str) -> str:
    """Return a link; its address is relative."""
    return f'<a href="{escape(address)}">{escape(text)}</a> '


def shown(text: str) -> str:
    """Return untrusted text as a page can show it."""
    return escape(escaped(text))


def _clock(at_s: int) -> str:
    try:
        return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(at_s)


def _length(seconds: int) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit and not seconds % unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"
