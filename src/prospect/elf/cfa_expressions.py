"""DWARF expressions of call-frame programs → the few forms of them that occur.

In: the bytes of an expression. Out: a `PlaceForm`. Linkers write one for each kind of procedure
linkage table, compilers one for frames that they align, the C library those of its signal
trampoline, and hand-written assembly some that read the CFA from the stack. Defined by DWARF 5,
2.5 "DWARF Expressions" and 7.7.1.
"""

from __future__ import annotations

from prospect.records import NamedTuple

_BREG0, _BREG31, _BREGX, _DEREF, _PLUS_UCONST = 0x70, 0x8F, 0x92, 0x06, 0x23
_RIP_BREG = b"\x80\x00"  # DW_OP_breg16 (rip) 0
# (rip & 15) >= bound, times 8, and that added: DW_OP_lit15 and litN ge lit3 shl plus
_PLT_HEAD, _PLT_TAIL, _LIT0 = b"\x3f\x1a", b"\x2a\x33\x24\x22", 0x30

FORM_SUM, FORM_DEREF, FORM_PLT, FORM_OTHER = range(4)


class PlaceForm(NamedTuple):
    """FORM_SUM: register + distance; FORM_DEREF: what stands there, + extra.

    FORM_PLT: register + distance, and 8 more where the lower 4 bits of pc are `extra` or above.
    """

    form: int
    register: int = 0
    distance: int = 0
    extra: int = 0


OTHER = PlaceForm(FORM_OTHER)


def recognise(expression: bytes) -> PlaceForm:
    """Return the form of an expression, `OTHER` for one that is none of them."""
    try:
        return _recognise(expression)
    except IndexError:
        return OTHER


def _recognise(octets: bytes) -> PlaceForm:
    first, at = octets[0], 1
    if first == _BREGX:
        register, at = _leb128(octets, at)
    elif _BREG0 <= first <= _BREG31:
        register = first - _BREG0
    else:
        return OTHER
    distance, at = _leb128(octets, at, signed=True)
    rest = octets[at:]
    if not rest:
        return PlaceForm(FORM_SUM, register, distance)
    if rest[0] == _DEREF:
        if len(rest) == 1:
            return PlaceForm(FORM_DEREF, register, distance)
        extra, end = _leb128(rest, 2)
        is_sum = rest[1] == _PLUS_UCONST and end == len(rest)
        return PlaceForm(FORM_DEREF, register, distance, extra) if is_sum else OTHER
    if len(rest) == 9 and rest[:4] == _RIP_BREG + _PLT_HEAD and rest[5:] == _PLT_TAIL:
        bound = rest[4] - _LIT0
        if 0 <= bound <= 31:
            return PlaceForm(FORM_PLT, register, distance, bound)
    return OTHER


def _leb128(octets: bytes, at: int, *, signed: bool = False) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = octets[at]
        at += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
        if shift > 63:
            raise IndexError
    if signed and octet & 0x40:
        value -= 1 << shift
    return value, at
