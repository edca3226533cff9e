"""struct perf_event_attr, packed for the kernel and unpacked from a file.

Source: ``include/uapi/linux/perf_event.h``, Linux 6.18.
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi
from prospect.errors import RecordingError
from prospect.records import NamedTuple

# The struct's members. Those without a field in `EventAttr` are zero, but for the size.
_LAYOUT = "IIQQQQQIIQQQQIiQIHHIIQQ"
_MEMBERS = (
    *("type", "size", "config", "sample_period", "sample_type", "read_format", "flags", "wakeup"),
    *("bp_type", "config1", "config2", "branch_sample_type", "sample_regs_user"),
    *("sample_stack_user", "clockid", "sample_regs_intr", "aux_watermark", "sample_max_stack"),
    *("reserved", "aux_sample_size", "aux_action", "sig_data", "config3"),
)
_NATIVE = struct.Struct("<" + _LAYOUT)

# Software events whose samples are not made by perf_sw_event().
_OWN_SAMPLES = (
    abi.PERF_COUNT_SW_CPU_CLOCK,
    abi.PERF_COUNT_SW_TASK_CLOCK,
    abi.PERF_COUNT_SW_DUMMY,
    abi.PERF_COUNT_SW_BPF_OUTPUT,
)


class EventAttr(NamedTuple):
    """The attributes of an event.

    `sample_period` is a rate in Hz if `flags` has FLAG_FREQ.
    """

    type: int = abi.PERF_TYPE_SOFTWARE
    config: int = abi.PERF_COUNT_SW_CPU_CLOCK
    sample_period: int = 0
    sample_type: int = 0
    read_format: int = 0
    flags: int = 0
    wakeup: int = 0
    config1: int = 0
    config2: int = 0
    branch_sample_type: int = 0
    sample_regs_user: int = 0
    sample_stack_user: int = 0
    clockid: int = 0
    sample_regs_intr: int = 0
    sample_max_stack: int = 0
    bp_type: int = 0
    config3: int = 0

    @property
    def shares_samples(self) -> bool:
        """Whether the kernel prepares one sample for all such events (`events.samples`)."""
        return self.type == abi.PERF_TYPE_SOFTWARE and self.config not in _OWN_SAMPLES

    @property
    def has_pieces_of_stacks(self) -> bool:
        """Whether samples of switches have pieces of stacks as their raw data (`following`)."""
        parts = self.sample_type & (abi.PERF_SAMPLE_RAW | abi.PERF_SAMPLE_STACK_USER)
        return (
            self.type == abi.PERF_TYPE_SOFTWARE
            and self.config == abi.PERF_COUNT_SW_CONTEXT_SWITCHES
            and parts == abi.PERF_SAMPLE_RAW
            and self.sample_stack_user > 0
        )

    def pack(self) -> bytes:
        """Return the 136 bytes of PERF_ATTR_SIZE_VER8 (Linux 6.18)."""
        members = {**self._asdict(), "size": abi.PERF_ATTR_SIZE_VER8}
        return _NATIVE.pack(*(members.get(name, 0) for name in _MEMBERS))

    @classmethod
    def unpack(cls, data: bytes, byte_order: str = "<") -> EventAttr:
        """Read an attr of any published size; missing members are zero, later ones are ignored.

        Args:
            data: the struct's bytes.
            byte_order: ``"<"`` or ``">"``, the order of the machine that wrote it.

        Raises:
            RecordingError: fewer than 64 bytes.
        """
        if len(data) < abi.PERF_ATTR_SIZE_VER0:
            raise RecordingError(
                f"an event attribute has {len(data)} bytes, at least 64 are needed"
            )
        size = abi.PERF_ATTR_SIZE_VER8
        padded = bytes(data[:size]).ljust(size, b"\0")
        members = dict(zip(_MEMBERS, struct.unpack(byte_order + _LAYOUT, padded), strict=True))
        if byte_order == ">":
            members["flags"] = _reverse_flag_bits(members["flags"])
        return cls(*(members[name] for name in cls._fields))

    @property
    def frequency_hz(self) -> int | None:
        """The requested rate, None for a fixed period."""
        return self.sample_period if self.flags & abi.FLAG_FREQ else None

    @property
    def most_frames(self) -> int:
        """Number of frames at which the kernel cut call chains; 0 without call chains.

        An attr without a number means sysctl kernel.perf_event_max_stack, which recordings do not
        have. This assumes its default.
        """
        if not self.sample_type & abi.PERF_SAMPLE_CALLCHAIN:
            return 0
        return self.sample_max_stack or abi.PERF_MAX_STACK_DEPTH


def _reverse_flag_bits(flags: int) -> int:
    # On big-endian machines, C lays bit-fields out from the most significant bit on. The reversal
    # swaps the two bits of precise_ip (15, 16), so swap them back.
    reversed_ = int(f"{flags:064b}"[::-1], 2)
    precise = reversed_ >> 15 & 3
    swapped = (precise & 1) << 1 | precise >> 1
    return reversed_ & ~(3 << 15) | swapped << 15


class EventDescription(NamedTuple):
    """An event of a recording: its attributes, the ids of its instances, its name.

    A clock bank is one description with the `ids` of all its clocks. `fields` are offset and size
    of the fields that are read from a tracepoint's raw data (`perfdata.tracing_data`).
    """

    attr: EventAttr
    ids: tuple[int, ...] = ()
    name: str = ""
    fields: tuple[tuple[int, int], ...] = ()
