"""The report as one HTML file: a flame graph, a heat map over time, and sortable tables.

Comes in: a `ReportView`. Goes out: an HTML document that needs nothing from elsewhere. Its markup
is the same for every recording: what was recorded stands in two data blocks, gzip in base64, which
the page's script unpacks and shows as text only. Its content security policy runs that one script
and loads nothing. The figures are those of the JSON report, which is one of the blocks.
Source: HTML Standard, 4.12.1 (data blocks); Content Security Policy Level 3, 2.3.1 (hashes).
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar

from prospect.profile.stack_weights import stack_samples
from prospect.profile.view import report_view
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.html.code import code_fields
from prospect.render.html.stacks import stack_block
from prospect.render.json.report import JsonRenderer
from prospect.render.renderer import write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.profile.model import Profile
    from prospect.profile.view import ReportView

_SCRIPTS = (
    "unpack",
    "text",
    "model",
    "routines",
    "view",
    "flame",
    "heat",
    "table",
    "panels",
    "details",
    "keys",
    "main",
)


@dataclass(frozen=True)
class HtmlRenderer(FiguresRenderer):
    """The report as a page for a browser.

    Attributes:
        detail, user_threshold_s, kernel_threshold_s: see `FiguresRenderer`.
        disassemble: `-e`: 1 gives instructions of the routines that pass the thresholds, 2 of all.
    """

    name: ClassVar[str] = "html"
    suffix: ClassVar[str] = ".html"
    media_type: ClassVar[str] = "text/html"

    disassemble: int = 0

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the page to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        view = report_view(profile, self.detail, self.user_threshold_s, self.kernel_threshold_s)
        # The view's profile is without its waits, which the pictures show.
        write_pieces(self._pieces(view, profile), out)

    def pieces(self, view: ReportView) -> Iterator[bytes]:
        """Yield the page of a view, without waits."""
        return self._pieces(view, view.profile)

    def _pieces(self, view: ReportView, profile: Profile) -> Iterator[bytes]:
        calls = ("totals",) if view.profile.stacks is not None else ()
        report = JsonRenderer(
            view.detail,
            view.user_threshold_s,
            view.kernel_threshold_s,
            disassemble=self.disassemble,
            calls=calls,
        )
        samples = stack_samples(profile, "k" if view.detail == "k" else "4")
        yield from _page(
            {
                "report": b"".join(report.pieces(view)),
                "source": code_fields(view.profile),
                "stacks": stack_block(samples),
            }
        )


def _page(blocks: dict[str, bytes]) -> Iterator[bytes]:
    markup = _asset("page.html")
    style = _asset("page.css")
    script = '"use strict";\n' + "".join(_asset(f"{name}.js") for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head, _, rest = markup.partition("<!-- policy and style -->")
    body, _, foot = rest.partition("<!-- data and script -->")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"{head}{meta}\n<style>{style}</style>{body}".encode()
    for name, data in blocks.items():
        # No time stamp: the same recording gives the same page.
        packed = b64encode(gzip.compress(data, 9, mtime=0))
        yield f'<script type="application/gzip" id="data-{name}">'.encode() + packed
        yield b"</script>\n"
    yield f"<script>{script}</script>{foot}".encode()


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
