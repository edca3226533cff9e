"""The fields of the report in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.encoding import rounded

if TYPE_CHECKING:
    from prospect.estimate.in_short import FunctionRow, InShort, ProgramRow


def in_short_fields(short: InShort) -> dict[str, Any]:
    """Return the summary; NaN for what is not known."""
    return {
        "hits": short.hits,
        "seconds": rounded(short.seconds),
        "error_s": rounded(short.half_s),
        "busy_s": rounded(short.busy_s),
        "programs": [_program(row) for row in short.first_programs],
        "more_programs": short.programs_behind,
        "functions": [_function(row) for row in short.first_functions],
        "more_functions": short.functions_behind,
        "kernel": rounded(short.kernel_s),
        "causes": [{"name": name, "amount": rounded(amount)} for name, amount in short.causes],
        "nameless_share": rounded(short.nameless),
        "bracket_share": rounded(short.bracketed),
    }


def _program(row: ProgramRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "processes": row.processes,
        "hits": row.hits,
        "seconds": rounded(row.seconds),
        "error_s": rounded(row.half_s),
        "user_share": rounded(row.user_share),
        "service": row.service or None,
        "other_services": row.other_services,
    }


def _function(row: FunctionRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "object": row.object_path,
        "hits": row.hits,
        "seconds": rounded(row.seconds),
        "error_s": rounded(row.half_s),
        "share": rounded(row.share),
        "like_above": row.is_like_above,
        "program": row.program,
        "other_programs": row.other_programs,
        "caller": row.caller or None,
    }
