"""Fields that several JSON documents have: of the run, its events, its call stacks, and of ±."""

from __future__ import annotations

from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    SECONDS,
    TEXT,
    Field,
    Kind,
    Mapping,
    Object,
    Rows,
    present,
)

DETAIL = Kind({"enum": ["2", "3", "4", "k"]})
TEXTS = Rows(TEXT)
NOTES = Field("notes", TEXTS, "sentences: what could not be seen, and how to get it")
WARNINGS = Field("warnings", TEXTS, "sentences: what was lost or damaged")
NOTES_AND_WARNINGS = Object("", NOTES, WARNINGS)

EVENT = Object(
    "event",
    Field("name", TEXT, "name of the event"),
    Field("frequency_hz", AMOUNT, "samples a second that were asked for, 0 if no rate was"),
    Field("seconds_per_period", AMOUNT, "0 if periods are not times"),
    Field("seconds_per_hit", AMOUNT, "0 if no rate was requested"),
    Field(
        "unit",
        TEXT,
        "unit of the periods of a pprof profile, absent otherwise",
        lambda event: event.unit or ABSENT,
        optional=True,
    ),
    Field(
        "counts",
        TEXT,
        "name of the samples of a pprof profile, absent otherwise",
        lambda event: event.counts if event.unit else ABSENT,
        optional=True,
    ),
)

RUN = Object(
    "run",
    Field("command", TEXTS, "the command and its arguments, empty if it is not of a command"),
    Field("origin", TEXT, "name of the recording"),
    Field("recorder", TEXT, "the program that recorded"),
    Field("recorder_command_line", TEXTS, "how it was called"),
    Field("hostname", TEXT, "the recorded machine"),
    Field("os_release", TEXT),
    Field("uname", TEXT),
    Field("arch", TEXT),
    Field("cpu_description", TEXT, "model of its CPUs"),
    Field("cpu_mhz", NUMBER.or_null, "their clock rate, 0 if unknown"),
    Field("cpus", INTEGER, "how many were sampled"),
    Field("started_at", NUMBER.or_null, "seconds since 1970, 0 if unknown"),
    Field("wall_seconds", NUMBER.or_null, "length of the interval"),
    Field("system_wide", FLAG, "whether every process was sampled"),
    Field("clock", TEXT, "the sampling clock, in words"),
    Field("events", Rows(EVENT), "all events"),
    Field(
        "accounting",
        Mapping(NUMBER.or_null),
        "the kernel's own figures for the interval, by name",
        lambda run: {
            key: value for key, value in run.accounting.items() if isinstance(value, (int, float))
        },
    ),
)

ERROR_BAR = Object(
    "",
    Field("error_s", SECONDS.or_null, "see [error bars](#error-bars)", "half_width_s"),
    Field("low_s", SECONDS.or_null),
    Field("high_s", SECONDS.or_null),
)

STACK_QUALITY = Object(
    "stack_quality",
    Field("stacks", COUNT, "call stacks of samples, counted if any is cut"),
    Field(
        "cut_stacks",
        COUNT,
        "stacks that a limit of the recording cut; `[cut]` is their outermost frame",
    ),
    Field(
        "most_frames",
        COUNT,
        "frames that the kernel recorded of a stack at most (`kernel.perf_event_max_stack`); "
        "0 for copies",
    ),
    Field("samples", COUNT, "samples with registers, for unwinding copies of user stacks"),
    Field("without_copy", COUNT, "those without a copy of the stack"),
    Field("copy_bytes", COUNT, "size of a copy that was asked for"),
    Field(
        "by_end",
        Mapping(COUNT),
        "samples by the reason why unwinding ended: `complete`, `cut`, and others",
    ),
    Field("continued", COUNT, "stacks that frame pointers continued"),
    Field(
        "cut_frames_median",
        COUNT,
        "frames of the cut stacks",
        lambda quality: quality.cut_frames[0],
    ),
    Field("cut_frames_most", COUNT, get=lambda quality: quality.cut_frames[1]),
    Field(
        "size_for_99",
        COUNT,
        "bytes that would have held 99 % of the stacks whole, 0 if the recorded ones did",
    ),
    Field("is_size_least", FLAG, "even more bytes may be needed"),
    Field(
        "places",
        Rows(
            Object(
                "",
                Field("object", TEXT, get="object_path"),
                Field("reason", TEXT),
                Field("samples", INTEGER.within(1)),
            )
        ),
        "where stacks ended early",
    ),
)
ANY_STACK_QUALITY = Object(
    "",
    Field(
        "stack_quality",
        STACK_QUALITY,
        "how many call stacks of the processes that `-V` selects are whole; absent if no "
        "stack was copied or cut",
        present,
        optional=True,
    ),
)
