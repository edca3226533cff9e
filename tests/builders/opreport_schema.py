"""A reader of OProfile's XML that takes what its published schema allows, and nothing else.

Source: OProfile 1.4, ``doc/opreport.xsd``, schema version 3.1: for each element its content in
order, as (name, least, most), and its attributes, as name → (type, whether it is required).
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

MANY = 1 << 30
_UNSIGNED, _INTEGER, _TEXT = r"\d+", r"-?\d+", r"(?s:.*)"
_BOOLEAN, _DECIMAL = "true|false|0|1", r"[+-]?(\d+(\.\d*)?|\.\d+)"
_HEX = "([0-9a-fA-F]{2})*"
_NAME, _NC_NAME = r"[A-Za-z_:][A-Za-z0-9._:-]*", r"[A-Za-z_][A-Za-z0-9._-]*"
_COUNTS, _ANY_COUNTS = ("count", 1, MANY), ("count", 0, MANY)
# One kind of either, as many as there are.
_ARCS = [(("module", "symbol"), 0, MANY)]
CONTENT = {
    "profile": [
        ("options", 1, 1),
        ("setup", 1, 1),
        ("classes", 0, 1),
        (("process", "binary"), 1, MANY),
        ("symboltable", 1, 1),
        ("detailtable", 0, MANY),
        ("bytestable", 0, 1),
    ],
    "options": [],
    "setup": [(("timersetup", "eventsetup"), 1, MANY)],
    "timersetup": [],
    "eventsetup": [],
    "classes": [("class", 1, MANY)],
    "class": [],
    "count": [],
    "process": [_COUNTS, ("thread", 1, MANY)],
    "thread": [_COUNTS, ("module", 1, MANY)],
    "binary": [_ANY_COUNTS, ("symbol", 0, MANY), ("module", 0, MANY)],
    "module": [_ANY_COUNTS, ("symbol", 1, MANY)],
    "symbol": [("callers", 0, 1), ("callees", 0, 1), _ANY_COUNTS],
    "callers": _ARCS,
    "callees": _ARCS,
    "symboltable": [("symboldata", 1, MANY)],
    "symboldata": [],
    "detailtable": [("symboldetails", 1, MANY)],
    "symboldetails": [("detaildata", 1, MANY)],
    "detaildata": [_COUNTS],
    "bytestable": [("bytes", 1, MANY)],
    "bytes": [],
}
ATTRIBUTES = {
    "profile": {
        "title": (_TEXT, True),
        "schemaversion": (r"3\.[0-9]+", True),
        "cputype": (_NC_NAME, True),
        "processor": (_NC_NAME, True),
        "mhz": (_DECIMAL, True),
        "separatedcpus": (_UNSIGNED, False),
    },
    "options": {
        "session": (_TEXT, False),
        "debuginfo": (_BOOLEAN, False),
        "details": (_BOOLEAN, False),
        "excludedependent": (_BOOLEAN, False),
        "excludesymbols": (_TEXT, False),
        "imagepath": (_TEXT, False),
        "includesymbols": (_TEXT, False),
        "merge": (_TEXT, False),
        "reversesort": (_BOOLEAN, False),
    },
    "timersetup": {"rtcinterrupts": (_UNSIGNED, False)},
    "eventsetup": {
        "id": (_UNSIGNED, True),
        "eventname": (_NAME, True),
        "unitmask": (_TEXT, False),
        "setupcount": (_UNSIGNED, True),
    },
    "class": {
        "name": (_TEXT, True),
        "cpu": (_UNSIGNED, False),
        "event": (_UNSIGNED, False),
        "mask": (_UNSIGNED, False),
    },
    "count": {"class": (_TEXT, False)},
    "process": {"pid": (_INTEGER, True), "name": (_TEXT, True)},
    "thread": {"tid": (_INTEGER, True)},
    "binary": {"name": (_TEXT, True)},
    "module": {"name": (_TEXT, True)},
    "symbol": {
        "idref": (_UNSIGNED, True),
        "self": (_BOOLEAN, False),
        "detaillo": (_UNSIGNED, False),
        "detailhi": (_UNSIGNED, False),
    },
    "symboldata": {
        "name": (_TEXT, True),
        "id": (_INTEGER, True),
        "file": (_TEXT, False),
        "line": (_UNSIGNED, False),
        "startingaddr": (_TEXT, False),
        "codelength": (_INTEGER, False),
    },
    "symboldetails": {"id": (_INTEGER, True)},
    "detaildata": {
        "line": (_UNSIGNED, False),
        "file": (_TEXT, False),
        "vmaoffset": (_HEX, True),
        "id": (_INTEGER, True),
    },
    "bytes": {"id": (_UNSIGNED, True)},
}


def read(document: bytes) -> ET.Element:
    """Return the root of a document; fails where the schema does not allow what is in it."""
    root = ET.fromstring(document)
    assert root.tag == "profile"
    _check(root)
    known = [one.get("id") for one in root.iter("symboldata")]
    assert len(set(known)) == len(known)
    assert {one.get("idref") for one in root.iter("symbol")} <= set(known)
    return root


def by_symbol(root: ET.Element, class_: str | None = None) -> Counter[tuple[str, str, str]]:
    """Return the counts of program, module and symbol; a program is a module of itself."""
    names = {one.get("id"): one.get("name") for one in root.iter("symboldata")}
    found: Counter[tuple[str, str, str]] = Counter()
    for binary in root.iter("binary"):
        inside = [(binary.get("name"), binary.findall("symbol"))]
        inside += [(one.get("name"), one.findall("symbol")) for one in binary.findall("module")]
        for module, symbols in inside:
            for symbol in symbols:
                count = sum(
                    int(one.text or "")
                    for one in symbol.findall("count")
                    if one.get("class") == class_
                )
                found[binary.get("name") or "", module or "", names[symbol.get("idref")] or ""] += (
                    count
                )
    return found


def _check(element: ET.Element) -> None:
    allowed = ATTRIBUTES.get(element.tag, {})
    for name, value in element.attrib.items():
        assert re.fullmatch(allowed[name][0], value), (element.tag, name, value)
    assert all(name in element.attrib for name, (_, must) in allowed.items() if must), (
        element.attrib
    )
    if element.tag in {"count", "bytes"}:
        of_text = _UNSIGNED if element.tag == "count" else _HEX
        assert re.fullmatch(of_text, (element.text or "").strip())
    else:
        assert not (element.text or "").strip()
    children = [child.tag for child in element]
    for names, least, most in CONTENT[element.tag]:
        choice = names if isinstance(names, tuple) else (names,)
        # Of a choice all are of one kind.
        kind = children[0] if children and children[0] in choice else choice[0]
        count = 0
        while children and children[0] == kind:
            children.pop(0)
            count += 1
        assert least <= count <= (1 if kind == "timersetup" else most), (element.tag, kind, count)
    assert not children, (element.tag, children)
    for child in element:
        _check(child)
