"""Names that rustc mangled, in both of its schemes → names of the source.

The legacy scheme is C++'s nested name with a hash as its last part; characters that a C++
identifier cannot hold are escaped. Defined by ``compiler/rustc_symbol_mangling/src/legacy.rs``. The
v0 scheme is defined by RFC 2603; the methods below have the names of its productions. Hashes are
left out, as in rustc's `{:#}` form. A back reference in a v0 name prints its target again, so each
can double the text: text, steps and depth are bounded, beyond the needs of any real name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.symbols.symbols_limits import DEEPEST_RUST_NAME, LONGEST_RUST_TEXT, MOST_RUST_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"_ZN([A-Za-z0-9_.$]+)17h[0-9a-f]{16}E((?:\.[A-Za-z0-9_.@$]+)?)")
_PART = re.compile(r"[0-9]{1,5}")
_LLVM_SUFFIX = re.compile(r"\.llvm\.[0-9A-Fa-f@]+$")
_ESCAPE = re.compile(r"\$(?:([A-Z]{1,2})|u([0-9a-f]{1,6}))\$|\.\.")
_CHARACTERS = {
    "SP": "@",
    "BP": "*",
    "RF": "&",
    "LT": "<",
    "GT": ">",
    "LP": "(",
    "RP": ")",
    "C": ",",
}

_BASIC_TYPES = {
    "a": "i8",
    "b": "bool",
    "c": "char",
    "d": "f64",
    "e": "str",
    "f": "f32",
    "h": "u8",
    "i": "isize",
    "j": "usize",
    "l": "i32",
    "m": "u32",
    "n": "i128",
    "o": "u128",
    "p": "_",
    "s": "i16",
    "t": "u16",
    "u": "()",
    "v": "...",
    "x": "i64",
    "y": "u64",
    "z": "!",
}
_SIGNED, _UNSIGNED = frozenset("aslxni"), frozenset("htmyoj")
_DIGITS_62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CLOSURES = {"C": "closure", "S": "shim"}
_POINTERS = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}


def demangle_legacy(name: str) -> str | None:
    """Return the source's name, None if the name is not of this scheme."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    path, suffix = match.groups()
    parts: list[str] = []
    position = 0
    while position < len(path):
        digits = _PART.match(path, position)
        if digits is None:
            return None
        start, position = digits.end(), digits.end() + int(digits[0])
        if position > len(path):
            return None
        part = path[start:position]
        # An identifier of C++ may not begin with a dollar: rustc puts an underscore before it.
        parts.append(_ESCAPE.sub(_character, part[1:] if part.startswith("_$") else part))
    return "::".join(parts) + _LLVM_SUFFIX.sub("", suffix)


def _character(escape: re.Match[str]) -> str:
    short, code = escape.groups()
    if short is not None:
        return _CHARACTERS.get(short, escape[0])
    if code is not None:
        character = chr(min(int(code, 16), 0x10FFFF))
        return character if character.isprintable() else escape[0]
    return "::"


class _NotMangledError(Exception):
    """The name does not follow the grammar, or is too costly."""


def demangle_v0(name: str) -> str | None:
    """Return the source's name, None if the name is not of this scheme or too costly."""
    if not name.startswith("_R") or not name.isascii():
        return None
    # Suffixes of LLVM's passes follow a dot, which occurs nowhere else.
    mangled, dot, suffix = name[2:].partition(".")
    parser = _Parser(mangled)
    try:
        parser.path(in_value=True)
        if parser.position < len(mangled):
            parser.silently(lambda: parser.path(in_value=False))
        if parser.position < len(mangled):
            return None
    except (_NotMangledError, RecursionError):
        return None
    return "".join(parser.text) + ("" if suffix.startswith("llvm.") else dot + suffix)


class _Parser:
    """A position in one name, and the text printed so far."""

    def __init__(self, mangled: str) -> None:
        self.mangled = mangled
        self.position = 0
        self.text: list[str] = []
        self._length = 0
        self._steps = 0
        self._depth = 0
        self._bound_lifetimes = 0
        self._is_silent = False

    def silently(self, parse: Callable[[], object]) -> None:
        """Parse without printing."""
        was_silent, self._is_silent = self._is_silent, True
        parse()
        self._is_silent = was_silent

    def path(self, *, in_value: bool) -> None:
        """Print a path; in a value its generic arguments follow `::`."""
        self._enter()
        tag = self._next()
        if tag == "C":
            self._disambiguator()
            self._print(self._identifier())
        elif tag == "N":
            self._nested(in_value=in_value)
        elif tag in {"M", "X", "Y"}:
            self._implementation(tag)
        elif tag == "I":
            self._instance(in_value=in_value)
            self._print(">")
        elif tag == "B":
            self._back_reference(lambda: self.path(in_value=in_value))
        else:
            raise _NotMangledError
        self._depth -= 1

    def _nested(self, *, in_value: bool) -> None:
        namespace = self._next()
        if not namespace.isalpha():
            raise _NotMangledError
        self.path(in_value=in_value)
        number = self._disambiguator()
        name = self._identifier()
        if namespace.isupper():
            kind = _CLOSURES.get(namespace, namespace)
            self._print("::{" + kind + (f":{name}" if name else "") + f"#{number}}}")
        elif name:
            self._print("::" + name)

    def _implementation(self, tag: str) -> None:
        if tag != "Y":
            self._disambiguator()
            self.silently(lambda: self.path(in_value=False))
        self._print("<")
        self._type()
        if tag != "M":
            self._print(" as ")
            self.path(in_value=False)
        self._print(">")

    def _instance(self, *, in_value: bool) -> None:
        self.path(in_value=in_value)
        self._print("::<" if in_value else "<")
        self._list(self._generic_argument, ", ")

    def _generic_argument(self) -> None:
        if self._eat("L"):
            self._lifetime(self._number_62())
        elif self._eat("K"):
            self._const()
        else:
            self._type()

    def _type(self) -> None:
        self._enter()
        tag = self._next()
        if tag in _BASIC_TYPES:
            self._print(_BASIC_TYPES[tag])
        elif tag in _POINTERS:
            self._pointer(tag)
        elif tag in {"A", "S"}:
            self._print("[")
            self._type()
            if tag == "A":
                self._print("; ")
                self._const()
            self._print("]")
        elif tag == "T":
            self._print("(")
            count = self._list(self._type, ", ")
            self._print(",)" if count == 1 else ")")
        elif tag == "F":
            self._with_binder(self._function)
        elif tag == "D":
            self._trait_object()
        elif tag == "B":
            self._back_reference(self._type)
        else:
            self.position -= 1
            self.path(in_value=False)
        self._depth -= 1

    def _pointer(self, tag: str) -> None:
        if tag in {"R", "Q"} and self._eat("L"):
            lifetime = self._number_62()
            self._print("&")
            if lifetime:
                self._lifetime(lifetime)
                self._print(" ")
            self._print(_POINTERS[tag][1:])
        else:
            self._print(_POINTERS[tag])
        self._type()

    def _function(self) -> None:
        if self._eat("U"):
            self._print("unsafe ")
        if self._eat("K"):
            abi = "C" if self._eat("C") else self._identifier().replace("_", "-")
            self._print(f'extern "{abi}" ')
        self._print("fn(")
        self._list(self._type, ", ")
        self._print(")")
        if not self._eat("u"):
            self._print(" -> ")
            self._type()

    def _trait_object(self) -> None:
        self._print("dyn ")
        self._with_binder(lambda: self._list(self._dyn_trait, " + "))
        if not self._eat("L"):
            raise _NotMangledError
        lifetime = self._number_62()
        if lifetime:
            self._print(" + ")
            self._lifetime(lifetime)

    def _dyn_trait(self) -> None:
        is_open = self._path_with_open_arguments()
        while self._eat("p"):
            self._print(", " if is_open else "<")
            is_open = True
            self._print(self._identifier() + " = ")
            self._type()
        if is_open:
            self._print(">")

    def _path_with_open_arguments(self) -> bool:
        """Print a path; leave the bracket of an instance open, for the bindings of its types."""
        self._enter()
        is_open = False
        if self._eat("B"):
            is_open = self._back_reference(self._path_with_open_arguments)
        elif self._eat("I"):
            self._instance(in_value=False)
            is_open = True
        else:
            self.path(in_value=False)
        self._depth -= 1
        return is_open

    def _const(self) -> None:
        self._enter()
        tag = self._next()
        if tag == "B":
            self._back_reference(self._const)
        elif tag == "p":
            self._print("_")
        elif tag in _SIGNED or tag in _UNSIGNED:
            sign = "-" if tag in _SIGNED and self._eat("n") else ""
            digits = self._hexadecimal()
            # rustc-demangle prints values of more than 64 bits unchanged.
            self._print(sign + (str(int(digits, 16)) if len(digits) <= 16 else f"0x{digits}"))
        elif tag == "b":
            self._print({"0": "false", "1": "true"}.get(self._hexadecimal(), "?"))
        elif tag == "c":
            self._print(_quoted(int(self._hexadecimal(), 16)))
        else:
            raise _NotMangledError
        self._depth -= 1

    def _with_binder(self, parse: Callable[[], object]) -> None:
        count = self._optional_number_62("G")
        if count > DEEPEST_RUST_NAME:
            raise _NotMangledError
        if count:
            self._print("for<")
            for index in range(count):
                self._bound_lifetimes += 1
                self._print(", " if index else "")
                self._lifetime(1)
            self._print("> ")
        parse()
        self._bound_lifetimes -= count

    def _lifetime(self, index: int) -> None:
        """Print a lifetime by its distance to the binder, 1 for the innermost; 0 if erased."""
        depth = self._bound_lifetimes - index
        if depth < 0:
            raise _NotMangledError
        if not index:
            self._print("'_")
        else:
            self._print("'" + (chr(ord("a") + depth) if depth < 26 else f"_{depth}"))

    def _back_reference(self, parse: Callable[[], bool | None]) -> bool:
        start = self.position - 1
        target = self._number_62()
        if target >= start:
            raise _NotMangledError
        # Without printing there is no need to follow it: its target is parsed in its place.
        if self._is_silent:
            return False
        after, self.position = self.position, target
        is_open = parse()
        self.position = after
        return bool(is_open)

    def _list(self, parse: Callable[[], object], separator: str) -> int:
        count = 0
        while not self._eat("E"):
            self._print(separator if count else "")
            parse()
            count += 1
        return count

    def _identifier(self) -> str:
        is_punycode = self._eat("u")
        size = self._decimal()
        self._eat("_")
        name = self.mangled[self.position : self.position + size]
        if len(name) < size:
            raise _NotMangledError
        self.position += size
        return _decode_punycode(name) if is_punycode else name

    def _disambiguator(self) -> int:
        return self._optional_number_62("s")

    def _optional_number_62(self, tag: str) -> int:
        return self._number_62() + 1 if self._eat(tag) else 0

    def _number_62(self) -> int:
        if self._eat("_"):
            return 0
        end = self.mangled.find("_", self.position, self.position + 12)
        value = 0
        for digit in self.mangled[self.position : end]:
            place = _DIGITS_62.find(digit)
            value = value * 62 + place
            if place < 0:
                raise _NotMangledError
        if end < 0:
            raise _NotMangledError
        self.position = end + 1
        return value + 1

    def _decimal(self) -> int:
        digit = self._next()
        if not digit.isdigit():
            raise _NotMangledError
        value = int(digit)
        # Zero is a number by itself: a digit after it belongs to the identifier.
        while value and self._peek().isdigit() and value < len(self.mangled):
            value = value * 10 + int(self._next())
        return value

    def _hexadecimal(self) -> str:
        end = self.mangled.find("_", self.position)
        digits = self.mangled[self.position : end]
        if end <= self.position or not set(digits) <= set("0123456789abcdef"):
            raise _NotMangledError
        self.position = end + 1
        return digits

    def _peek(self) -> str:
        return self.mangled[self.position : self.position + 1]

    def _next(self) -> str:
        tag = self._peek()
        if not tag:
            raise _NotMangledError
        self.position += 1
        return tag

    def _eat(self, tag: str) -> bool:
        found = self._peek() == tag
        self.position += found
        return found

    def _enter(self) -> None:
        self._steps += 1
        self._depth += 1
        if self._steps > MOST_RUST_STEPS or self._depth > DEEPEST_RUST_NAME:
            raise _NotMangledError

    def _print(self, text: str) -> None:
        if self._is_silent:
            return
        self._length += len(text)
        if self._length > LONGEST_RUST_TEXT:
            raise _NotMangledError
        self.text.append(text)


def _decode_punycode(name: str) -> str:
    """Decode an identifier that is not ASCII: RFC 3492, with `_` for its delimiter."""
    basic, _, extended = name.rpartition("_")
    try:
        return f"{basic}-{extended}".encode("ascii").removeprefix(b"-").decode("punycode")
    except UnicodeError:
        raise _NotMangledError from None


def _quoted(point: int) -> str:
    character = chr(min(point, 0x10FFFF))
    return f"'{character}'" if character.isprintable() else f"'\\u{{{point:x}}}'"
