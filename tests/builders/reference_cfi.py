"""A call-frame interpreter that is slow and plain: one function, one instruction at a time.

It follows DWARF 5, 6.4.2 to the letter, and knows nothing of columns. What it makes of a function
is a list of (start, CFA, {register: rule}), with rules as tuples of words and numbers.
"""

from __future__ import annotations

import struct

X86 = {"sp": 7, "fp": 6, "second": 3, "ra": 16}
ARM = {"sp": 31, "fp": 29, "second": 30, "ra": 30}


class Stream:
    def __init__(self, octets, at, end):
        self.octets, self.at, self.end = bytes(octets[:end]), at, end

    def __bool__(self):
        return self.at < self.end

    def take(self, form):
        (value,) = struct.unpack_from("<" + form, self.octets, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def uleb(self):
        value = shift = 0
        while True:
            octet = self.take("B")
            value |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                return value

    def sleb(self):
        begin = self.at
        value = self.uleb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def block(self):
        size = self.uleb()
        self.at += size
        return self.octets[self.at - size : self.at]


class UnknownError(Exception):
    pass


def rows_of_function(frames, row):
    """The rows of one function of a `FrameTable`."""
    cie = frames.cies[int(frames.cie[row])]
    octets, limit = frames.data.content, int(frames.limit[row])
    program = Stream(octets, int(frames.rest[row]), limit)
    if cie.augmentation:
        size = program.uleb()
        program.at += size
    state = {"cfa": None, "saved": {}}
    place, rows, stack = int(frames.start[row]), [], []
    end = int(frames.end[row])
    initial = None
    for number, stream in enumerate((Stream(octets, cie.program, cie.end), program)):
        if number:
            initial = dict(state["saved"])
        try:
            while stream:
                moved = _execute(stream, cie, state, stack, initial)
                if moved:
                    rows.append((place, state["cfa"], dict(state["saved"])))
                    place += moved
        except (UnknownError, IndexError, struct.error):
            state["cfa"] = ("unknown",)
            break
    rows.append((place, state["cfa"], dict(state["saved"])))
    return [entry for entry in rows if entry[0] < end]


def _execute(stream, cie, state, stack, initial):  # noqa: C901, PLR0912, PLR0915 - as the standard
    """Carry out an instruction; return how far it advances."""
    caf, daf, saved = cie.code_alignment, cie.data_alignment, state["saved"]
    code = stream.take("B")
    low = code & 0x3F
    if code >> 6 == 1:
        return low * caf
    if code >> 6 == 2:
        saved[low] = ("cfa", stream.uleb() * daf)
        return 0
    if code >> 6 == 3 or code == 0x06:
        register = low if code >> 6 == 3 else stream.uleb()
        saved.pop(register, None)
        if initial and register in initial:
            saved[register] = initial[register]
        return 0
    if code in (0x02, 0x03, 0x04):
        return stream.take({2: "B", 3: "H", 4: "I"}[code]) * caf
    if code == 0x05:
        register = stream.uleb()
        saved[register] = ("cfa", stream.uleb() * daf)
    elif code == 0x11:
        register = stream.uleb()
        saved[register] = ("cfa", stream.sleb() * daf)
    elif code == 0x2F:
        register = stream.uleb()
        saved[register] = ("cfa", -stream.uleb() * daf)
    elif code == 0x07:
        saved[stream.uleb()] = ("undefined",)
    elif code == 0x08:
        saved[stream.uleb()] = ("same",)
    elif code in (0x09, 0x14):
        register = stream.uleb()
        saved[register] = ("lost", stream.uleb())
    elif code == 0x15:
        register = stream.uleb()
        saved[register] = ("lost", stream.sleb())
    elif code == 0x16:
        register = stream.uleb()
        saved[register] = ("lost", stream.block())
    elif code == 0x10:
        register = stream.uleb()
        saved[register] = ("at", stream.block())
    elif code == 0x0A:
        stack.append((state["cfa"], dict(saved)))
    elif code == 0x0B:
        state["cfa"], state["saved"] = stack.pop()
    elif code == 0x0C:
        state["cfa"] = ("register", stream.uleb(), stream.uleb())
    elif code == 0x12:
        state["cfa"] = ("register", stream.uleb(), stream.sleb() * daf)
    elif code == 0x0D:
        state["cfa"] = ("register", stream.uleb(), state["cfa"][2])
    elif code == 0x0E:
        state["cfa"] = ("register", state["cfa"][1], stream.uleb())
    elif code == 0x13:
        state["cfa"] = ("register", state["cfa"][1], stream.sleb() * daf)
    elif code == 0x0F:
        state["cfa"] = ("at", stream.block())
    elif code == 0x2E:
        stream.uleb()
    elif code not in (0x00, 0x2C, 0x2D):
        raise UnknownError
    return 0


def plain_rule(cfa, saved, machine):
    """What `frame_rules` can say of a row: (base, distance, frame register, second register).

    Of a CFA that is an expression the base is "expression"; None where no rule is expected.
    """
    returns = saved.get(machine["ra"], ("same",))
    if returns[0] == "undefined":
        return "end"
    if machine is X86 and returns != ("cfa", -8):
        return None
    if machine is ARM and returns[0] not in ("same", "cfa"):
        return None
    if cfa is None or cfa[0] == "unknown":
        return None
    registers = tuple(_plain(saved.get(machine[name], ("same",))) for name in ("fp", "second"))
    if cfa[0] == "at":
        return ("expression", cfa[1], *registers)
    return (cfa[1], cfa[2], *registers)


def _plain(rule):
    if rule[0] in ("same", "cfa"):
        return rule
    if rule[0] == "at" and rule[1][:1] == b"\x76":  # DW_OP_breg6, rbp
        stream = Stream(rule[1], 1, len(rule[1]))
        return ("fp", stream.sleb())
    return ("lost",)
