"""What samples of an event say beside where they were taken, as an event source decoded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prospect.figures.report.sample_data import DataFigures


def sample_data_fields(found: tuple[DataFigures, ...]) -> dict[str, Any]:
    """Return what event sources say; nothing where no raw data was decoded."""
    if not found:
        return {}
    return {
        "sample_data": [
            {
                "event": data.event,
                "source": data.source,
                "samples": data.samples,
                "numbers": [
                    {**one._asdict(), "routines": [part._asdict() for part in one.routines]}
                    for one in data.numbers
                ],
                "texts": [
                    {
                        "name": one.name,
                        "samples": one.samples,
                        "rows": [
                            {"text": text, "samples": count, "share": share}
                            for text, count, share in one.rows
                        ],
                    }
                    for one in data.texts
                ],
            }
            for data in found
        ]
    }
