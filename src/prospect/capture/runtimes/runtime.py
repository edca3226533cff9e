"""The contract between the engine and a runtime, such as CPython.

A runtime consists of the names of its files (`machine.runtime_processes`), two rows in
`known_runtimes`, a file in `assembly.runtimes` that names its frames, and

- a detector, which gets an ELF file with such a name and returns an `Image`, `Unknown`, or None.
  The engine moves `Image.addresses` to the file's place in a process. `Image.words` are offsets and
  other numbers, from a table or from the file; `image_entry.entry_fields` names both for the walk.
  The detector runs in a child, at the cost of the user whose process mapped the file, and checks
  everything;
- a `Runtime`, the walk, each part of which gives instructions:
- `start` puts the thread's innermost frame into the slot `FRAME` and goes to "has_frame", or to one
  of `walk_parts.FAILURES`. Then, for each frame,
- `frame` reads the frame at `FRAME` and sets `CODE` (a number of its function while that exists),
  `LAST` (32 bits that lead to the line), `MARK` (8 bits for the report), and `FRAME` to the next
  frame or 0. It goes to "walk_fault" if memory cannot be read, and to "next" to hide the frame. It
  may set `HANDLE` to the object from which `send` reads, if that is not `CODE`;
- `sign` puts 8 bytes into `PAIR` that differ if another function gets the same `CODE`, unless
  `frame` has done that; it goes to "next" if there are none;
- `send`, for a function that was not sent yet, reads its name, file and lines from `CODE` and
  `PAIR`, and sends each by `walk_names.send_bytes` after `begin_name`. It goes to "named" if there
  is none.

The engine counts frames and bytes, gives functions their signatures, remembers which were sent, and
bounds and writes the records (`abi.runtime_frames`). A walk reads user memory by `walk_parts` only,
leaves registers above R5 unchanged, and has its own labels. It keeps numbers in slots of the
scratch, not on the stack, and begins its loops with `may_go`, which saves time of the verifier (see
`walk_parts`).
"""

from __future__ import annotations

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.capture.runtimes.elf_lookup import Segment
    from prospect.capture.runtimes.walk_parts import Item, Maps

PAGE = 4096
_ADDRESS_END = 1 << 47
MOST_ADDRESSES, MOST_WORDS = 6, 40


class Placed(NamedTuple):
    """A runtime in a process.

    Attributes:
        runtime: a number of `abi.runtime_frames`.
        version: 0x030B for 3.11.
        described: a number for the report.
        addresses: of its data in the process; 0 for none.
        words: 32 bits each.
        text, loop: begin and end of the code of its file, and of the evaluation loop.
    """

    runtime: int
    version: int
    described: int
    addresses: tuple[int, ...]
    words: tuple[int, ...]
    text: tuple[int, int]
    loop: tuple[int, int]


class Image(NamedTuple):
    """A runtime in a file; as `Placed`, with the file's addresses.

    `segments` are the loaded ones; a file that `is_fixed` has its addresses in every process.
    """

    runtime: int
    version: int
    described: int
    addresses: tuple[int, ...]
    words: tuple[int, ...]
    text: tuple[int, int]
    loop: tuple[int, int]
    is_fixed: bool
    segments: tuple[Segment, ...]

    def placed(self, start: int, offset: int) -> Placed | None:
        """Return the runtime in a process that has `offset` of the file at `start`."""
        bias = 0
        if not self.is_fixed:
            for segment in self.segments:
                if segment.offset & -PAGE == offset & -PAGE:
                    bias = start - (segment.address & -PAGE)
                    break
            else:
                return None
        addresses = tuple(one and one + bias for one in self.addresses)
        text, loop = ((begin + bias, end + bias) for begin, end in (self.text, self.loop))
        if not all(0 <= one < _ADDRESS_END for one in (*addresses, *text, *loop)):
            return None
        return Placed(*self[:3], addresses, self.words, text, loop)


class Unknown(NamedTuple):
    """A runtime of a version whose structures are unknown."""

    runtime: int
    version: int


class Runtime(NamedTuple):
    """The walk of a runtime; see above."""

    number: int
    start: Callable[[Maps], Iterator[Item]]
    frame: Callable[[], Iterator[Item]]
    send: Callable[[Maps], Iterator[Item]]
    sign: Callable[[Maps], Iterator[Item]] | None = None
