"""A recording by `perf record -a -F` of a made-up machine: periods begin at 1 and ramp up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from builders import perfdata as build
from builders.perfdata_features import feature_event_desc, feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.perfdata import format as fmt

COUNTER_ID = 9
CPUS = 2
SPEED_HZ = 2e9
NAMES = {100: "starter", 200: "alpha", 300: "beta"}
_RATE_HZ = 4000
_RAMP_SAMPLES = 1500
_LEAST_S = 2e-6  # two interrupts are at least so far apart
_STRETCH_S = 1e-3
_ATTR_BYTES = 128  # of Linux 5.15 to 6.2: perf refuses what is larger than its own


class Ramping(NamedTuple):
    """The file, and seconds by name as they were."""

    data: bytes
    truth_s: dict[str, float]


def ramping(
    seed: int = 1, seconds: float = 1.0, *, name: str = "cycles", config: int = 0
) -> Ramping:
    """Record `starter` while periods ramp up, then `alpha` and `beta` in turn, 3 : 2."""
    random = np.random.default_rng(seed)
    flags = abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ
    attr = EventAttr(
        type=abi.PERF_TYPE_HARDWARE,
        config=config,
        sample_type=build.USUAL,
        flags=flags,
        sample_period=_RATE_HZ,
    )
    event = EventDescription(attr, (COUNTER_ID,), name)
    records = build.RecordBuilder()
    told = [records.comm(pid, pid, comm) for pid, comm in NAMES.items()]
    told += [records.mmap(pid, pid, 0x1000, 0x1000, "/none", time=0) for pid in NAMES]
    truth = dict.fromkeys(NAMES.values(), 0.0)
    samples: list[tuple[int, bytes]] = []
    for cpu in range(CPUS):
        ramp = np.minimum(1.3 ** np.arange(_RAMP_SAMPLES) / 1e9 + 1.0, 900.0).astype(np.int64)
        steady = SPEED_HZ / _RATE_HZ * random.uniform(0.8, 1.2, int(seconds * _RATE_HZ * 2))
        period = np.append(ramp, steady.astype(np.int64))
        at_s = np.cumsum(np.maximum(period / SPEED_HZ, _LEAST_S))
        inside = at_s < seconds
        period, at_s = period[inside], at_s[inside]
        ramp_s = float(at_s[:_RAMP_SAMPLES][-1])
        of_stretch = random.choice([200, 300], int(seconds / _STRETCH_S) + 1, p=[0.6, 0.4])
        stretch = ((at_s - ramp_s) / _STRETCH_S).astype(np.int64)
        pid = np.where(at_s <= ramp_s, 100, of_stretch[np.maximum(stretch, 0)])
        truth["starter"] += ramp_s
        begins_s = ramp_s + _STRETCH_S * np.arange(len(of_stretch))
        lasted_s = np.clip(seconds - begins_s, 0.0, _STRETCH_S)
        for one in (200, 300):
            truth[NAMES[one]] += float(lasted_s[of_stretch == one].sum())
        for who, when_s, amount in zip(pid.tolist(), at_s.tolist(), period.tolist(), strict=True):
            time = 1 + round(when_s * 1e9)
            sample = records.sample(
                ip=0x1100, pid=who, tid=who, time=time, id=COUNTER_ID, cpu=cpu, period=amount
            )
            samples.append((time, sample))
    samples.sort(key=lambda each: each[0])
    features = {
        fmt.HEADER_ARCH: feature_string("x86_64"),
        fmt.HEADER_EVENT_DESC: feature_event_desc([event], attr_size=_ATTR_BYTES),
    }
    records_of = [*told, *(sample for _, sample in samples)]
    data = build.FileBuilder([event], records_of, features, attr_size=_ATTR_BYTES).file()
    return Ramping(data, truth)
