import numpy as np
import pytest

from builders.profile import interrupted_profile
from builders.profile_builder import ProfileBuilder
from prospect.figures.modes import (
    KERNEL_MODES,
    MODE_COUNT,
    MODE_INTERRUPT,
    MODE_KERNEL,
    MODE_NAMES,
    MODE_OTHER,
    MODE_USER,
    hit_modes,
    is_kernel_mode,
)
from prospect.profile.complete import complete
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNCLASSIFIED,
    ENTRY_REASON_UNRECORDED,
)

OWN = (
    *(
        ENTRY_REASON_NONE,
        ENTRY_REASON_SYSCALL,
        ENTRY_REASON_EXCEPTION,
        ENTRY_REASON_KERNEL_THREAD,
        ENTRY_REASON_IDLE,
    ),
    *(ENTRY_REASON_UNCLASSIFIED, ENTRY_REASON_UNRECORDED),
)


def mode_of(mode, entry_reason, name="sh", **facts):
    build = ProfileBuilder()
    function = build.function("f", build.object("o"), 0)
    build.hit(build.process(name, 5, **facts), function, 1, mode, entry_reason=(entry_reason, ""))
    return int(hit_modes(complete(build.build()))[0])


@pytest.mark.parametrize("entry_reason", [ENTRY_REASON_INTERRUPT, ENTRY_REASON_SOFTIRQ])
def test_interrupts_and_softirqs_are_apart(entry_reason):
    assert mode_of(CPUMODE_KERNEL, entry_reason) == MODE_INTERRUPT


@pytest.mark.parametrize("entry_reason", OWN)
def test_all_other_kernel_time_is_the_process_own(entry_reason):
    assert mode_of(CPUMODE_KERNEL, entry_reason) == MODE_KERNEL


def test_softirqs_are_what_ksoftirqd_does_itself():
    thread = {"name": "ksoftirqd/3", "is_kernel_thread": True}
    assert mode_of(CPUMODE_KERNEL, ENTRY_REASON_SOFTIRQ, **thread) == MODE_KERNEL
    assert mode_of(CPUMODE_KERNEL, ENTRY_REASON_INTERRUPT, **thread) == MODE_INTERRUPT
    assert mode_of(CPUMODE_KERNEL, ENTRY_REASON_SOFTIRQ, name="ksoftirqd/3") == MODE_INTERRUPT


@pytest.mark.parametrize(
    ("cpumode", "mode"), [(CPUMODE_USER, MODE_USER), (0, MODE_OTHER), (5, MODE_OTHER)]
)
def test_an_entry_reason_is_the_kernels_only(cpumode, mode):
    assert mode_of(cpumode, ENTRY_REASON_INTERRUPT) == mode


def test_kernel_modes_are_the_two_of_kernel_mode():
    profile = complete(interrupted_profile())
    modes = hit_modes(profile)
    assert np.array_equal(is_kernel_mode(modes), profile.hits.mode == CPUMODE_KERNEL)
    every = np.arange(MODE_COUNT)
    assert every[is_kernel_mode(every)].tolist() == [*KERNEL_MODES]
    assert len(MODE_NAMES) == MODE_COUNT
