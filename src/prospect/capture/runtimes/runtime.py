"""What the engine takes of a runtime, such as CPython: the contract of a file that adds one.

A runtime consists of the names of its files (`machine.runtime_processes`), two rows in
`known_runtimes`, a file in `assembly.runtimes` that names its frames, and

- a detector, which is given an ELF file with such a name and returns an `Image`, `Unknown`, or
  None. `Image.addresses` are moved to where a process has the file, `Image.words` are offsets and
  other numbers, from a table or from the file; `image_entry.Fields` names both for the walk. It
  runs in a child, at the cost of the user whose process mapped the file, and checks all it can;
- a `Runtime`, the walk, each part of which gives instructions:
- `start`: puts the thread's innermost frame into the slot `FRAME` and goes to "has_frame", or to
  one of `walk_parts.FAILURES`. Then for each frame
- `frame`: reads the frame at `FRAME` and puts down its function (`CODE`, a number that is the
  function's as long as it lives), `LAST` (32 bits that lead to the line), `MARK` (8 bits that its
  report knows) and the next frame, or 0, in `FRAME`. It goes to "walk_fault" if memory cannot be
  read, to "next" if the frame is not to be shown;
  It may put into `HANDLE` what `send` reads from, if that is not `CODE`;
- `sign`, which is given the maps: puts 8 bytes into `PAIR` that differ if another function gets the
  same `CODE`; goes to "next" if there are none;
- `send`: for a function that nobody has sent: reads its name, file and lines, with `CODE` and
  `PAIR` at hand, and sends each by `walk_names.send_bytes` after `begin_name`. Goes to "named" if
  there is none.

The engine counts frames and bytes, gives functions their signatures, keeps what was sent, and
bounds and writes the records (`abi.runtime_frames`). A walk reads user memory by `walk_parts` only,
keeps registers above R5 as they are, and has its own labels. It keeps numbers in slots of the
scratch, not on the stack, and begins its loops with `may_go`: see `walk_parts` for what that saves.
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
        version: as its users write it, a byte for each number: 0x030B.
        described: what the report must know of it.
        addresses: of its own data, where the process has it; 0 for none.
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
    """A runtime in a file; as `Placed`, by the file's own addresses.

    `segments` are its loaded ones; a file that `is_fixed` has its addresses in every process.
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
        """Return what it is in a process that has `offset` of the file at `start`."""
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
    """A runtime of a version of which no structure is known here."""

    runtime: int
    version: int


class Runtime(NamedTuple):
    """A runtime whose frames are read in samples; see above."""

    number: int
    start: Callable[[Maps], Iterator[Item]]
    frame: Callable[[], Iterator[Item]]
    sign: Callable[[Maps], Iterator[Item]]
    send: Callable[[Maps], Iterator[Item]]
