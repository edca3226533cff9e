"""The fields of the JSON report on the run's books: ledger, late samples, own cost, accounting.

Comes in: `RunBooks` and agreements. Goes out: dicts and lists, named as docs/schema.md says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.estimate.ledger.lateness import USUAL_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.estimate.ledger.agreement import Agreement
    from prospect.estimate.ledger.lateness import Lateness
    from prospect.estimate.ledger.tick_ledger import TickCounts, TickLedger
    from prospect.figures.report.accounting import Cost, OwnCost


def ledger_fields(ledger: TickLedger | None) -> dict[str, Any] | None:
    """Return the tick ledger, None where no clock keeps a grid."""
    if ledger is None:
        return None
    by_cpu = _tick_rows(ledger.by_cpu)
    by_clock = _tick_rows(ledger.by_clock)
    return {
        "cpus": [
            {
                "cpu": int(ledger.cpu[row]),
                **ticks,
                "idle_s": float(ledger.idle_s[row]),
                "busy_s": float(ledger.busy_s[row]),
                "accounted_idle_s": float(ledger.accounted_idle_s[row]),
                "accounted_steal_s": float(ledger.accounted_steal_s[row]),
                "clocks": [
                    {
                        "clock": int(ledger.clock[clock]),
                        "period_ns": float(ledger.period_ns[clock]),
                        **by_clock[clock],
                    }
                    for clock in (ledger.clock_cpu == row).nonzero()[0].tolist()
                ],
            }
            for row, ticks in enumerate(by_cpu)
        ],
        "unsampled_s": ledger.unsampled_s,
        "unwatched_s": ledger.unwatched_s,
        "unclocked": ledger.unclocked,
        "other_losses": ledger.other_losses,
    }


def lateness_fields(lateness: Lateness | None) -> dict[str, Any] | None:
    """Return from when on a sample counts as late, None where no clock keeps a grid."""
    if lateness is None:
        return None
    columns = (lateness.cpu.tolist(), lateness.limit_ns.tolist(), lateness.usual_ns.tolist())
    return {
        "usual_share": USUAL_SHARE,
        "cpus": [
            {"cpu": cpu, "limit_ns": limit_ns, "usual_ns": usual_ns}
            for cpu, limit_ns, usual_ns in zip(*columns, strict=True)
        ],
    }


def cost_fields(cost: OwnCost) -> dict[str, Any]:
    """Return what profiling cost."""
    return {
        "recorder_hits": cost.recorder_hits,
        "recorder": _cost(cost.recorder),
        "recorder_accounted_s": cost.recorder_accounted_s,
        "sampling": _cost(cost.sampling),
        "sampling_spread_s": cost.sampling_spread_s,
        "sample_cost_ns": cost.sample_cost_ns,
        "counted_calls": _cost(cost.counted_calls),
    }


def accounting_fields(rows: Iterable[Agreement]) -> list[dict[str, Any]]:
    """Return sampled and accounted times."""
    return [
        {
            "name": row.name,
            "sampled_s": None if row.sampled_s is None else round(row.sampled_s, 9),
            "accounted_s": row.accounted_s,
            "source": row.source,
            "difference_s": None if row.difference_s is None else round(row.difference_s, 9),
            "error_s": row.error_s,
            "unsampled_s": row.unsampled_s,
            "unbooked_s": row.unbooked_s,
            "agrees": row.agrees,
        }
        for row in rows
    ]


def _tick_rows(counts: TickCounts) -> list[dict[str, Any]]:
    columns = [*counts, counts.closure, counts.closure_share]
    names = [*counts._fields, "closure", "closure_share"]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    return None if cost is None else {"seconds": cost.seconds, "share": cost.share}
