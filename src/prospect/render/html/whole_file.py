"""One HTML file of markup, style, scripts and data that loads nothing.

Its markup is the same for every recording. Data blocks have the recorded data, gzip in base64,
which the page's script unpacks and shows as text only. The content security policy allows that one
script and no requests, so the page works offline. A script that the policy's hash does not match,
or that fails, leaves the page blank.

A `ColumnBlock` holds columns of numbers that a browser takes as typed arrays without a loop: the
length of its header, u32; the header, JSON in UTF-8; then the columns, each from a multiple of 8
bytes on, in the smallest of u8, u16 and u32 that holds it, or f64; fractions in f32; all
little-endian. `assets/unpack.js` reads it.
Source: HTML Standard, 4.12.1 (data blocks); Content Security Policy Level 3, 2.3.1 (hashes).
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from prospect.render.encoding import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_SLOT = re.compile(r"<!-- ([\w ]+) -->\n")
_POLICY = "default-src 'none'; {}base-uri 'none'; form-action 'none'"
# Level 6 takes twice as long for 5 % fewer bytes, the highest one more than ten times for 7 %.
_GZIP_LEVEL = 4
_ASKS_ITS_SERVER = "connect-src 'self'; "
_ALIGNMENT = 8
_SMALL = ((1 << 8, "u1"), (1 << 16, "u2"), (1 << 32, "u4"))


def document(
    parts: str, scripts: Sequence[str], blocks: Mapping[str, bytes], *, is_served: bool = False
) -> Iterator[bytes]:
    """Yield the document.

    Args:
        parts: the asset that fills the slots of ``page.html``.
        scripts: assets of its script, in order.
        blocks: data by name, for ``embedded.js``.
        is_served: whether its script may send requests to its server.
    """
    style = asset("page.css")
    script = '"use strict";\n' + "".join(asset(f"{name}.js") for name in scripts)
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}; "
    policy = _POLICY.format(sources + _ASKS_ITS_SERVER * is_served)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    _, *named = _SLOT.split(asset(f"{parts}.html"))
    slots = dict(zip(named[::2], named[1::2], strict=True))
    slots["policy and style"] = f"{meta}<style>{style}</style>\n"
    first, *rest = _SLOT.split(asset("page.html"))
    yield first.encode()
    for name, text in zip(rest[::2], rest[1::2], strict=True):
        if name == "data and script":
            yield from _data(blocks)
            yield f"<script>{script}</script>\n".encode()
        else:
            yield slots[name].encode()
        yield text.encode()


def asset(name: str) -> str:
    """Return the text of a file next to this module."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _data(blocks: Mapping[str, bytes]) -> Iterator[bytes]:
    for name, data in blocks.items():
        # No time stamp: the same recording gives the same page.
        packed = b64encode(gzip.compress(data, _GZIP_LEVEL, mtime=0))
        yield f'<script type="application/gzip" id="data-{name}">'.encode() + packed
        yield b"</script>\n"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


class ColumnBlock:
    """A block that is being filled."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, column: NDArray[Any]) -> dict[str, Any]:
        """Append a column and return its place for the header.

        Args:
            column: [n] whole numbers that are not negative, or floating-point numbers.
        """
        kind = "f4"
        if column.dtype.kind != "f":
            kind = next((name for end, name in _SMALL if column.max(initial=0) < end), "f8")
        data = column.astype("<" + kind).tobytes()
        place = {"type": kind, "at": self._size, "length": len(column)}
        data += bytes(-len(data) % _ALIGNMENT)
        self._parts.append(data)
        self._size += len(data)
        return place

    def block(self, header: dict[str, Any]) -> bytes:
        """Return the whole block."""
        text = encoded(header)
        text += b" " * (-(len(text) + 4) % _ALIGNMENT)
        return b"".join((len(text).to_bytes(4, "little"), text, *self._parts))
