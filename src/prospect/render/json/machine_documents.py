"""The JSON of `prospect list`, `cache`, `doctor`, `control`, `store list` and `store check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.json.document_fields import (
    ABSENT,
    COUNT,
    FLAG,
    GENERATOR,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Mapping,
    Object,
    Part,
    Rows,
    each,
    one_of,
    present,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_EVENT = Object(
    "",
    name=TEXT("what `--event` takes, or a pattern of it"),
    kind=TEXT("such as `software`, `hardware`, `cache`, `tracepoint`"),
    other_names=TEXTS("that mean the same"),
    description=TEXT("what it counts, or the parameters that it is short for"),
    unit=TEXT("of a count; empty for plain counts"),
    parameters=Mapping(TEXT)(
        "what the event takes: the bits of each parameter", lambda event: dict(event.parameters)
    ),
    fields=each(declaration=TEXT("in C"), size=COUNT("in bytes"))(
        "with `--fields`, what a tracepoint's filter may name"
    ),
)
_CHECK = Object(
    "",
    can_count=FLAG(get=lambda check: not check.counting),
    can_sample=FLAG(get=lambda check: not check.sampling),
    user_only=FLAG("this user may not see it in the kernel"),
    why_not=TEXT("the kernel's reason; empty if there is none", lambda c: c.counting or c.sampling),
)
_LISTED = Object(  # of an event, and its check or None
    "",
    event=Part(_EVENT, 0),
    check=_CHECK("with `--check`", lambda row: present(row[1]), optional=True),
)
EVENTS = Object(  # of such pairs, and of limits
    "events",
    schema=schema("prospect-events/1"),
    events=Rows(_LISTED)("the events that fit", 0),
    limits=TEXTS("what cannot be listed, a sentence each", 1),
)

CACHE = Object(
    "cache",
    schema=schema("prospect-cache/1"),
    generator=GENERATOR,
    directory=TEXT("where the files are"),
    removed=FLAG("they were removed (`--clear`)"),
    kinds=each(
        kind=TEXT("what they hold"),
        files=COUNT("how many there are"),
        size_bytes=COUNT("their size"),
        oldest_s=NUMBER("when the least recently used was used, in seconds since 1970"),
    )("a row for each kind of file"),
    limit_bytes=Mapping(COUNT, ("tables", "servers"))(
        "the most that is kept: `tables`, and files from `servers`"
    ),
)

DIAGNOSIS = Object(
    "doctor",
    schema=schema("prospect-doctor/1"),
    generator=GENERATOR,
    status=COUNT.within(0, 2)(
        "the exit status: 0 everything can be profiled, 1 not all, 2 nothing"
    ),
    summary=TEXT("what the checks come to"),
    remedy=TEXT("what would change it; empty if nothing needs a change"),
    checks=each(
        name=TEXT("of the check"),
        state=one_of(("ok", "note", "limited", "fails"))("how it ended"),
        finding=TEXT("a sentence"),
    )("one for each line of the table"),
)

CONTENTS = Object(
    "contents",
    days=each(
        day=TEXT("as 2026-11-22"),
        session=TEXT("that its windows belong to"),
        host=TEXT("the machine that was sampled"),
        windows=COUNT("how many"),
        measured_s=NUMBER("how long they are together"),
        samples=COUNT("in these windows"),
        lost=COUNT("of their samples"),
        size_bytes=COUNT("of their files"),
    )("a row for each day of a session"),
    services=each(
        service=TEXT("its name; empty for processes of none", 0), samples=COUNT("that it has", 1)
    )("those with most samples"),
    events=TEXTS("names of what was sampled"),
    separate=TEXTS("what is kept separate: some of `process`, `thread`, `cpu`"),
    remarks=TEXTS("what is left out, and why"),
)
HEALTH = Object(
    "health",
    segments=COUNT("how many there are"),
    damaged=TEXTS("a sentence for each that cannot be read"),
    nameless=each(
        path=TEXT("of the object"),
        hits=COUNT("samples in functions without names"),
        why=TEXT("what is known of the reason"),
    )("objects without names, most samples first"),
    samples=COUNT("that can be read", "hits"),
    nameless_samples=COUNT("those of functions without names", "nameless_hits"),
    dropped=each(
        begin_s=INTEGER("from when, in seconds since 1970"),
        end_s=INTEGER("until when"),
        windows=COUNT("how many"),
        why=TEXT("the reason"),
    )("windows that were removed"),
)


def _answered(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return a getter of a field of a daemon's answer, which may lack it."""
    return lambda answer: answer.get(name, ABSENT)


DAEMON = Object(
    "daemon",
    **{
        name: field.kind(field.about, _answered(name), optional=True)
        for name, field in {
            "schema": schema("prospect-daemon/1"),
            "version": TEXT("of the daemon's program"),
            "pid": COUNT("the daemon's process"),
            "store": TEXT("its store"),
            "sampling": FLAG("whether it samples now"),
            "session": TEXT("that windows belong to now"),
            "began_s": NUMBER("when the daemon started, in seconds since 1970"),
            "frequency_hz": NUMBER("samples of a CPU in a second"),
            "call_graph": TEXT("how it records callers; `none` without"),
            "window_s": NUMBER("how long a window is"),
            "separate": TEXTS("what is kept separate: some of `process`, `thread`, `cpu`"),
            "samples": COUNT("in all windows since its start"),
            "lost": COUNT("samples that the kernel could not deliver"),
            "windows": COUNT("that were written"),
            "windows_lost": COUNT("that could not be written"),
            "windows_merged": COUNT("that were written together with another one"),
            "dropped_for_room": COUNT("segments that were removed because the disk was full"),
            "newest_s": NUMBER("when the newest window ended, in seconds since 1970; 0 for none"),
            "newest_age_s": NUMBER.or_null("how long ago that is; `null` for none"),
            "objects_without_names": COUNT(
                "objects with samples in the last window whose functions have no names"
            ),
            "left_out": TEXTS("what windows leave out, a sentence each"),
            "complaint": TEXT("why the last window is not in the store; empty if it is"),
            "cpu_s": NUMBER("CPU seconds of the daemon and its processes"),
            "cpu_percent": NUMBER("how much of the machine's CPU time they take now"),
            "cpu_limit_percent": NUMBER("the most that they may take"),
            "memory_peak_bytes": COUNT("the most memory that they had in the last window"),
            "memory_limit_bytes": COUNT("the most that they may have"),
            "steps": COUNT("how many steps it has taken to stay below these limits"),
            "goes_without": TEXTS("what windows lack because of these steps"),
            "goes_without_since_s": NUMBER("since when, in seconds since 1970"),
            "memory_bytes": COUNT("the daemon's memory now"),
            "child_memory_bytes": COUNT("the most memory of a process that wrote a window"),
            "ship": TEXT("where finished hours are sent; empty for nowhere"),
            "ship_sent_bytes": COUNT("bytes that were sent"),
            "ship_waiting_bytes": COUNT("bytes that wait"),
            "ship_waiting_s": NUMBER("how long the oldest of them has waited"),
            "ship_lost_windows": COUNT("windows that were removed before they were sent"),
            "ship_complaint": TEXT("why sending failed; empty if it did not"),
            "push": TEXT("the collector that windows are sent to; empty for none"),
            "push_windows": COUNT("windows that it has taken"),
            "push_waiting": COUNT("windows that wait for it"),
            "push_lost": COUNT("windows that were given up"),
            "push_complaint": TEXT("why sending failed; empty if it did not"),
            "segments": COUNT("how many the store has"),
            "store_bytes": COUNT("their size"),
            "removed": COUNT("with `reset`, the segments that were removed"),
            "at_s": NUMBER("if the daemon does not answer, when it wrote this status down"),
            "alive_s": NUMBER("and when it would last have answered, in seconds since 1970"),
            "no_answer": TEXT("and why it does not answer"),
        }.items()
    },
)
