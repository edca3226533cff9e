"""What the JSON report says of waiting: every thread's life, and what blocked it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from prospect.figures.report.view import ReportView
    from prospect.figures.report.waiting import Waiting

_NS = 1e-9


def waiting_fields(view: ReportView) -> dict[str, Any]:
    """Return what threads did; nothing where the recording has no switches."""
    found = view.waiting
    if found is None:
        return {}
    blockers = None
    if found.blockers is not None:
        blockers = [blocker._asdict() for blocker in found.blockers]
    return {
        "waiting": {
            "threads": _threads(view, found),
            "sampled_s": found.sampled_s,
            "blockers": blockers,
            "wakers": found.wakers and [waker._asdict() for waker in found.wakers],
            "stacks": [
                stack._asdict() | {"kernel": list(stack.kernel), "user": list(stack.user)}
                for stack in found.stacks
            ],
            "more_stacks": found.more_stacks,
        }
    }


def throttled_fields(view: ReportView) -> dict[str, Any]:
    """Return how CPU limits stopped control groups; nothing if none did."""
    if not view.throttled:
        return {}
    return {"throttled": [one._asdict() | {"pids": list(one.pids)} for one in view.throttled]}


def _threads(view: ReportView, found: Waiting) -> list[dict[str, Any]]:
    threads, rows = found.threads, found.shown
    pids = np.append(view.profile.processes.pid, -1).take(threads.process_index.take(rows)).tolist()
    times = {
        "life_s": threads.life_ns,
        "cpu_s": threads.cpu_ns,
        "runnable_s": threads.runnable_ns,
        "blocked_s": threads.blocked_ns,
        "unknown_s": threads.unknown_ns,
        "stackless_s": threads.stackless_ns,
        "longest_s": threads.longest_ns,
    }
    seconds = {name: (column.take(rows) * _NS).tolist() for name, column in times.items()}
    return [
        {
            "name": threads.name[row],
            "pid": pids[place],
            "tid": int(threads.tid[row]),
            "user_s": float(found.user_s[row]),
            "system_s": float(found.system_s[row]),
            **{name: column[place] for name, column in seconds.items()},
            "waits": int(threads.blocks[row]),
            "preemptions": int(threads.preemptions[row]),
        }
        for place, row in enumerate(rows.tolist())
    ]
