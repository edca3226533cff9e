"""What a report shows side by side: the classes of hits, as OProfile calls them."""

from __future__ import annotations

from prospect.records import Record


class HitClasses(Record):
    """What `HitTable.class_index` keeps apart beyond the other columns of the table.

    Attributes:
        dimension: what the classes differ in: "cpu", "thread", "hour", "session" or "host".
        names: of each class.
    """

    dimension: str
    names: list[str]
