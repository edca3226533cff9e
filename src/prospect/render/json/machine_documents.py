"""The JSON of `prospect list`, `cache`, `doctor`, `store list` and `store check`."""

from __future__ import annotations

from prospect.render.json.document_fields import (
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
    fields=each(
        declaration=TEXT("in C"),
        size=COUNT("in bytes"),
    )("with `--fields`, what a tracepoint's filter may name"),
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
        service=TEXT("its name; empty for processes of none", 0),
        samples=COUNT("that it has", 1),
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
