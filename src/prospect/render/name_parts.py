"""Shorten names of functions to the room that a column has.

The least telling parts are dropped first: the return type, parameters, template arguments, then
namespaces, modules and directories from the left. The function's own name is cut in its middle if
it alone is too wide. `assets/names.js` does the same for pages; both pass one table of tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.escape import display_width, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ELLIPSIS = "..."
# Names come from untrusted files. Longer names are only cut.
_LONGEST = 1 << 13
# Patterns are compiled at their first use: few reports have a name that is too wide.
_LEXEME = r"operator(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\)|\[\])(?=[(<\s]|$)|->|=>|::|[()<>\[\]{} ./]"
_CLOSING = {"(": ")", "<": ">", "[": "]", "{": "}"}
# Suffixes that compilers and linkers add to a name.
_SUFFIX = (
    r"(?: \[clone [^\]]*\])+$|@+[A-Z][\w.]*$"
    r"|::h[0-9a-f]{16}$"
    r"|\.(?:isra|constprop|part|cold|lto_priv|llvm|localalias)(?:\.\w+){0,4}$"
)
_QUALIFIERS = r"(?: const| volatile| noexcept| ?&|\[abi:\w+\])*$"
_LINE = r"[^/\s]+:\d+(?::\d+)?$"
# V8's word for a function that only its file and line tell from others.
_NAMELESS = r"JS:[^\w$]?$"
_POSITION = r" \[(fn \d+) of \d+\]$"
_VERSION = r"\.so[.\d]*$"
_BEFORE_ARGUMENTS = r"[\w:]$|operator\W{0,4}$"
# Namespaces in names that programs do not write.
_INLINE = {"__cxx11", "__1", "_V2", "__detail", "(anonymous namespace)", "{anonymous}", "<locals>"}
_WORD = r"[\w@$~*]+"
# Names that mean nothing without the one before them.
_NEEDS_OWNER = r"operator.*|\{.*|<.*|func\d.*|\d+"


class _Parts(NamedTuple):
    """The top level of a name: begin and end of groups, of separators, and blanks."""

    groups: list[tuple[int, int]]
    separators: list[tuple[int, int]]
    blanks: list[int]


def short_name(name: str, width: int, object_name: str = "") -> str:
    """Return an escaped name in at most `width` columns.

    Args:
        name: of a function, or in brackets the reason that it has none.
        width: at least 4.
        object_name: the function's file, for functions between two exported ones.
    """
    if display_width(name) <= width:
        return name
    last = name
    for last in _candidates(name, object_name):
        if display_width(last) <= width:
            return last
    return _without_middle(last, width)


def short_names(names: Sequence[str], width: int, objects: Sequence[str] = ()) -> list[str]:
    """Return names in at most `width` columns; different names stay different if possible.

    `objects` are their files, empty if unknown.
    """
    files = objects or [""] * len(names)
    found = [short_name(name, width, file) for name, file in zip(names, files, strict=True)]
    alike: dict[str, set[str]] = {}
    for short, name in zip(found, names, strict=True):
        alike.setdefault(short, set()).add(name)
    return [
        short if len(alike[short]) == 1 else _distinct(name, short, alike[short], width, file)
        for short, name, file in zip(found, names, files, strict=True)
    ]


def _distinct(name: str, short: str, others: set[str], width: int, object_name: str) -> str:
    """Return a short form of a name, and its first word that others of that form lack."""
    begin = 0
    while len({other[begin : begin + 1] for other in others}) == 1:
        begin += 1
    # The whole word in which they differ.
    word = next((one for one in re.finditer(_WORD, name) if one.end() > begin), None)
    tail = _without_middle(word[0] if word else name[begin:], width // 2)
    room = width - display_width(tail) - 1
    if room < 2 * len(_ELLIPSIS) or not tail:
        return short
    return f"{short_name(name, room, object_name)} {tail}"


def _without_middle(text: str, width: int) -> str:
    """Cut text in its middle: names begin alike more often than they end alike."""
    if display_width(text) <= width:
        return text
    if width < 2 * len(_ELLIPSIS) or not text.isascii():
        return shortened(text, width)
    room = width - len(_ELLIPSIS)
    head = room // 3
    return text[:head] + _ELLIPSIS + text[head - room :]


def _candidates(name: str, object_name: str) -> Iterator[str]:
    """Yield ever shorter forms of a name."""
    if name.startswith("[") or len(name) > _LONGEST:
        return
    before, _, after = name.partition("->")
    if after and not before.endswith(("operator", " ", "-")):
        yield from _bracket_candidates(before, after, object_name)
        return
    # `JS:*work /app/work.js:1:2` of V8, `py::work:/app/work.py` of CPython.
    own, _, place = name.partition(" ")
    file = place.rpartition("/")[2]
    if name.startswith("py::"):
        own, _, file = name.removeprefix("py::").partition(":")
        yield f"py::{own}:{file.rpartition('/')[2]}"
        yield f"py::{own}"
    elif re.match(_LINE, file):
        yield f"{own} {file}"
        yield file if re.match(_NAMELESS, own) else own
    else:
        end = "@plt" if name.endswith("@plt") else ""
        for text in _plain_candidates(name.removesuffix(end)):
            yield text + end


def _bracket_candidates(before: str, after: str, object_name: str) -> Iterator[str]:
    """Yield ever shorter forms of a function between two named ones, with its file and place."""
    position = re.search(_POSITION, after)
    which = position[0][2:-1] if position else f"after {before}"
    file = object_name.rpartition("/")[2]
    bare = re.sub(_VERSION, "", file)
    for shown in dict.fromkeys((file, bare, bare.rstrip("-.0123456789"))):
        if shown:
            yield f"[in {shown}, {which}]"
    yield f"[{which}]"
    if position:
        yield f"[{position[1]}]"


def _plain_candidates(name: str) -> Iterator[str]:
    text = re.sub(_SUFFIX, "", name)
    parts = _parts(text)
    if parts is None:
        return
    params = [group for group in parts.groups if _is_parameters(text, group)]
    if params and re.fullmatch(_QUALIFIERS, text[params[-1][1] :]):
        begin = _name_begin(text, params[-1][0], parts.blanks)
        yield name[begin:]
        # A function's own class may be inside of another function.
        cut = [(start, end) for start, end in params if start >= begin]
        text = _without(text[: params[-1][1]], [(0, begin), *cut])
        yield text
    text = _without_arguments(text)
    yield text
    yield from _without_path(text)


def _parts(text: str) -> _Parts | None:
    """Return the top level of a name; None if its brackets do not match."""
    parts = _Parts([], [], [])
    closing: list[str] = []
    begin = 0
    for token in re.finditer(_LEXEME, text):
        word = token[0]
        if word in _CLOSING:
            if not closing:
                begin = token.start()
            closing.append(_CLOSING[word])
        elif closing and word == closing[-1]:
            closing.pop()
            if not closing:
                parts.groups.append((begin, token.end()))
        elif not closing and word == " ":
            parts.blanks.append(token.start())
        elif not closing and word in {"::", ".", "/"}:
            parts.separators.append(token.span())
    return None if closing else parts


def _is_parameters(text: str, group: tuple[int, int]) -> bool:
    """Return whether a group has parameters; it may be a type in Go, or a nameless namespace."""
    begin, end = group
    inside = text[begin:end]
    is_go = inside.startswith("(*") and text[end : end + 1] == "."
    return inside.startswith("(") and begin > 0 and inside not in _INLINE and not is_go


def _name_begin(text: str, end: int, blanks: list[int]) -> int:
    """Return the begin of the name before parameters, which is after its return type."""
    operator = re.search(r"\boperator\b", text[:end])
    end = operator.start() if operator else end
    return max((blank + 1 for blank in blanks if blank < end), default=0)


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    kept, at = [], 0
    for begin, end in spans:
        kept.append(text[at:begin])
        at = end
    return "".join([*kept, text[at:]])


def _without_arguments(text: str) -> str:
    """Drop template and type arguments, and the contents of a lambda's or Rust type's brackets."""
    parts = _parts(text)
    if parts is None:
        return text
    has_scopes = any(text[begin] == ":" for begin, _ in parts.separators)
    kept, at = [], 0
    for begin, end in parts.groups:
        before, inside = text[at:begin], text[begin:end]
        is_argument = bool(re.search(_BEFORE_ARGUMENTS, before[-16:]))
        if inside[0] == "<" and is_argument:
            inside, before = "", before.removesuffix("::")
        elif inside[0] == "[" and is_argument and not has_scopes:
            inside = ""
        elif inside[0] == "<" and has_scopes and not before.endswith("."):
            inside = _short_type(inside)
        elif inside.startswith("{lambda("):
            inside = "{lambda" + inside[inside.rfind("#") :]
        kept += [before, inside]
        at = end
    return "".join([*kept, text[at:]]).rstrip()


def _short_type(text: str) -> str:
    """Return `<Vec as Index>` for `<alloc::vec::Vec<T> as core::ops::Index<I>>`."""
    own, as_, trait = text[1:-1].partition(" as ")
    if own.startswith("<"):
        own, as_, trait = text[1:-1].rpartition(" as ")
    return f"<{_last(own)}{as_}{_last(trait)}>"


def _last(path: str) -> str:
    """Return the last name of a path in Rust, without its arguments."""
    return (path.partition("<")[0] or path).rpartition("::")[2]


def _without_path(text: str) -> Iterator[str]:
    """Yield a name with ever fewer of the namespaces, modules and directories before it."""
    qualified = re.match(r"<([^<>]*)>(?=::)", text)
    yield text
    if qualified:
        text = qualified[1].partition(" as ")[0] + text[qualified.end() :]
        yield text
    parts = _parts(text)
    separators = parts.separators if parts else []
    if any(text[begin] == ":" for begin, _ in separators):
        separators = [one for one in separators if text[one[0]] == ":"]
    ends = [end for _, end in separators if end < len(text)]
    begins = [begin for begin, _ in separators]
    for place, end in enumerate(ends):
        following = begins[place + 1] if place + 1 < len(begins) else len(text)
        rest, own = text[end:], text[end:following]
        is_last = following == len(text)
        if own in _INLINE or (is_last and re.fullmatch(_NEEDS_OWNER, own)):
            continue
        yield rest
        if own.startswith("(*") and own.endswith(")"):
            yield own[2:-1] + text[following:]
