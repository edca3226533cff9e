"""struct perf_event_attr, packed for the kernel and unpacked from a file.

Source: ``include/uapi/linux/perf_event.h``, Linux 6.18.
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi
from prospect.errors import RecordingError
from prospect.records import NamedTuple

# type size config sample_period sample_type read_format flags wakeup bp_type config1 config2
# branch_sample_type sample_regs_user sample_stack_user clockid sample_regs_intr aux_watermark
# sample_max_stack reserved aux_sample_size aux_action sig_data config3
_LAYOUT = "IIQQQQQIIQQQQIiQIHHIIQQ"
_NATIVE = struct.Struct("<" + _LAYOUT)

# Software events whose samples are not made by perf_sw_event().
_OWN_SAMPLES = (
    abi.PERF_COUNT_SW_CPU_CLOCK,
    abi.PERF_COUNT_SW_TASK_CLOCK,
    abi.PERF_COUNT_SW_DUMMY,
    abi.PERF_COUNT_SW_BPF_OUTPUT,
)


class EventAttr(NamedTuple):
    """One event's attributes: what is counted, when it samples, what a sample carries.

    `sample_period` holds the rate in Hz instead where `flags` has FLAG_FREQ.
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
        """Whether one sample is prepared for all such events on a CPU (`events.samples`)."""
        return self.type == abi.PERF_TYPE_SOFTWARE and self.config not in _OWN_SAMPLES

    @property
    def has_pieces_of_stacks(self) -> bool:
        """Whether samples of switches have pieces of stacks as their raw data (`following`)."""
        kind = abi.PERF_TYPE_SOFTWARE, abi.PERF_COUNT_SW_CONTEXT_SWITCHES
        parts = self.sample_type & (abi.PERF_SAMPLE_RAW | abi.PERF_SAMPLE_STACK_USER)
        is_written = (self.type, self.config, parts) == (*kind, abi.PERF_SAMPLE_RAW)
        return is_written and self.sample_stack_user > 0

    def pack(self) -> bytes:
        """Return the 136 bytes that perf_event_open() of Linux 6.18 knows (VER8)."""
        return _NATIVE.pack(
            self.type,
            abi.PERF_ATTR_SIZE_VER8,
            self.config,
            self.sample_period,
            self.sample_type,
            self.read_format,
            self.flags,
            self.wakeup,
            self.bp_type,
            self.config1,
            self.config2,
            self.branch_sample_type,
            self.sample_regs_user,
            self.sample_stack_user,
            self.clockid,
            self.sample_regs_intr,
            0,
            self.sample_max_stack,
            0,
            0,
            0,
            0,
            self.config3,
        )

    @classmethod
    def unpack(cls, data: bytes, byte_order: str = "<") -> EventAttr:
        """Read an attr of any published size; what it lacks is zero, what it has more is ignored.

        Args:
            data: the struct's bytes, at least VER0's 64.
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
        fields = struct.unpack(byte_order + _LAYOUT, padded)
        flags = fields[6]
        if byte_order == ">":
            flags = _reverse_flag_bits(flags)
        return cls(
            type=fields[0],
            config=fields[2],
            sample_period=fields[3],
            sample_type=fields[4],
            read_format=fields[5],
            flags=flags,
            wakeup=fields[7],
            bp_type=fields[8],
            config3=fields[22],
            config1=fields[9],
            config2=fields[10],
            branch_sample_type=fields[11],
            sample_regs_user=fields[12],
            sample_stack_user=fields[13],
            clockid=fields[14],
            sample_regs_intr=fields[15],
            sample_max_stack=fields[17],
        )

    @property
    def frequency_hz(self) -> int | None:
        """The rate asked for, None if a fixed period was asked for."""
        return self.sample_period if self.flags & abi.FLAG_FREQ else None

    @property
    def most_frames(self) -> int:
        """Number of frames at which the kernel cut call chains; 0 without call chains.

        Without a number in the attr it was sysctl kernel.perf_event_max_stack. Recordings do not
        hold that; the default is assumed.
        """
        if not self.sample_type & abi.PERF_SAMPLE_CALLCHAIN:
            return 0
        return self.sample_max_stack or abi.PERF_MAX_STACK_DEPTH


def _reverse_flag_bits(flags: int) -> int:
    # C lays bit-fields out from the most significant bit on big-endian machines. The
    # two bits of precise_ip (15, 16) come out swapped within the reversal, so swap them back.
    reversed_ = int(f"{flags:064b}"[::-1], 2)
    precise = reversed_ >> 15 & 3
    swapped = (precise & 1) << 1 | precise >> 1
    return reversed_ & ~(3 << 15) | swapped << 15


class EventDescription(NamedTuple):
    """An event of a recording: its attributes, the ids of its instances, its name.

    A clock bank is one description whose `ids` are those of all its clocks. `fields` are offset and
    size of what is wanted of a tracepoint's raw data (`perfdata.tracing_data`).
    """

    attr: EventAttr
    ids: tuple[int, ...] = ()
    name: str = ""
    fields: tuple[tuple[int, int], ...] = ()
