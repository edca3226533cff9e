import numpy as np
import pytest

from builders.profile import interrupted_profile
from builders.profile_builder import ProfileBuilder
from prospect.figures.portions import (
    KERNEL_PORTIONS,
    PORTION_COUNT,
    PORTION_INTERRUPT,
    PORTION_KERNEL,
    PORTION_NAMES,
    PORTION_OTHER,
    PORTION_USER,
    hit_portions,
    is_kernel_portion,
)
from prospect.profile.complete import complete
from prospect.profile.model import (
    CAUSE_EXCEPTION,
    CAUSE_IDLE,
    CAUSE_INTERRUPT,
    CAUSE_KERNEL_THREAD,
    CAUSE_NONE,
    CAUSE_SOFTIRQ,
    CAUSE_SYSCALL,
    CAUSE_UNCLASSIFIED,
    CAUSE_UNRECORDED,
    MODE_KERNEL,
    MODE_USER,
)

OWN = (
    *(CAUSE_NONE, CAUSE_SYSCALL, CAUSE_EXCEPTION, CAUSE_KERNEL_THREAD, CAUSE_IDLE),
    *(CAUSE_UNCLASSIFIED, CAUSE_UNRECORDED),
)


def portion_of(mode, cause, name="sh", **facts):
    build = ProfileBuilder()
    function = build.function("f", build.object("o"), 0)
    build.hit(build.process(name, 5, **facts), function, 1, mode, cause=(cause, ""))
    return int(hit_portions(complete(build.build()))[0])


@pytest.mark.parametrize("cause", [CAUSE_INTERRUPT, CAUSE_SOFTIRQ])
def test_interrupts_and_softirqs_are_apart(cause):
    assert portion_of(MODE_KERNEL, cause) == PORTION_INTERRUPT


@pytest.mark.parametrize("cause", OWN)
def test_all_other_kernel_time_is_the_process_own(cause):
    assert portion_of(MODE_KERNEL, cause) == PORTION_KERNEL


def test_softirqs_are_what_ksoftirqd_does_itself():
    thread = {"name": "ksoftirqd/3", "is_kernel_thread": True}
    assert portion_of(MODE_KERNEL, CAUSE_SOFTIRQ, **thread) == PORTION_KERNEL
    assert portion_of(MODE_KERNEL, CAUSE_INTERRUPT, **thread) == PORTION_INTERRUPT
    assert portion_of(MODE_KERNEL, CAUSE_SOFTIRQ, name="ksoftirqd/3") == PORTION_INTERRUPT


@pytest.mark.parametrize(
    ("mode", "portion"), [(MODE_USER, PORTION_USER), (0, PORTION_OTHER), (5, PORTION_OTHER)]
)
def test_a_cause_is_the_kernels_only(mode, portion):
    assert portion_of(mode, CAUSE_INTERRUPT) == portion


def test_kernel_portions_are_the_two_of_kernel_mode():
    profile = complete(interrupted_profile())
    portion = hit_portions(profile)
    assert np.array_equal(is_kernel_portion(portion), profile.hits.mode == MODE_KERNEL)
    every = np.arange(PORTION_COUNT)
    assert every[is_kernel_portion(every)].tolist() == [*KERNEL_PORTIONS]
    assert len(PORTION_NAMES) == PORTION_COUNT
