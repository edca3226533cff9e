"""Files → the V8 in them, such as Node's program or library: its version and its layout.

The file may be hostile: `elf_lookup` bounds the cost of reading it, `abi.v8` checks the numbers.

Defined by: ``src/utils/version.cc`` of V8, which exports its numbers, as those for debuggers.
"""

from __future__ import annotations

import struct

from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.capture.runtimes.elf_lookup import ET_EXEC
from prospect.capture.runtimes.image_entry import entry_fields
from prospect.capture.runtimes.runtime import Image, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.v8 import Layout
    from prospect.capture.runtimes.elf_lookup import File

# The bytes of a thread's stack that the walk reads for a frame: from `v8.ENTRY_CALLED` on.
FRAME_BYTES = v8.FRAME_RETURN + 8 - v8.ENTRY_CALLED
_CALLED_SINCE = 0x0C09
ENTRY = entry_fields((), ("frame_bytes", "has_called", *v8.Layout._fields))
_NUMBER = struct.Struct("<i")


def find_v8(file: File, _path: bytes, /) -> Image | Unknown | None:
    """Return the V8 in a file, None if there is none; raises as `find_python`."""
    symbols = file.find((*v8.VERSION_SYMBOLS, *v8.SYMBOLS))
    code = [segment for segment in file.segments if segment.is_code]
    if not code or any(name not in symbols for name in v8.VERSION_SYMBOLS):
        return None
    values = {name: _NUMBER.unpack(file.at(at, 4))[0] for name, (at, _) in symbols.items()}
    major, minor = (values[name] for name in v8.VERSION_SYMBOLS)
    if not (0 <= major < 256 and 0 <= minor < 256):
        return None
    layout = v8.layout_for((major, minor), values)
    if layout is None:
        return Unknown(wire.V8, major << 8 | minor)
    return Image(
        runtime=wire.V8,
        version=layout.version,
        described=0,
        addresses=(),
        words=(FRAME_BYTES, layout.version >= _CALLED_SINCE, *layout),
        text=(code[0].address, max(one.address + one.size for one in code)),
        loop=(0, 0),
        is_fixed=file.kind == ET_EXEC,
        segments=file.segments,
    )


def layout_of(words: tuple[int, ...]) -> Layout:
    """Return the layout that an image's words hold."""
    return v8.Layout(*words[2 : 2 + len(v8.Layout._fields)])
