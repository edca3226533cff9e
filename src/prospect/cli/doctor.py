"""``prospect doctor``: show the diagnosis as a table or as JSON; scripts use the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.terminal import show
from prospect.plugins import KINDS, package_of, plugins
from prospect.recording.diagnosis import OK, Check, examine
from prospect.records import replace
from prospect.render.json.document_fields import indented
from prospect.render.json.machine_documents import DIAGNOSIS
from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.recording.diagnosis import Diagnosis


def run(settings: Settings, _words: list[str], _command_line: tuple[str, ...]) -> int:
    """Print the diagnosis and return its status: 0 all, 1 limited, 2 nothing.

    Raises:
        ProspectError: the target does not answer.
    """
    if settings.target:
        from prospect.target.question_client import examine_on

        diagnosis = examine_on(settings.target)
    else:
        diagnosis = examine()
    diagnosis = _with_plugins(diagnosis)
    as_json = settings.format == "json"
    show(indented(DIAGNOSIS, diagnosis) if as_json else table_text(diagnosis))
    return diagnosis.status


def _with_plugins(diagnosis: Diagnosis) -> Diagnosis:
    """Add a check that lists plug-ins, if there are any."""
    found = [
        f"{kind} {one.name} ({package_of(one)})"
        for group, kind in KINDS.items()
        for one in plugins(group)
    ]
    if not found:
        return diagnosis
    check = Check("plug-ins", OK, ", ".join(found))
    return replace(diagnosis, checks=(*diagnosis.checks, check))


def table_text(diagnosis: Diagnosis) -> str:
    """Return the table, the summary, and the remedy."""
    head = f"Prospect {__version__} on {diagnosis.machine}\n\n"
    width = max(len(check.name) for check in diagnosis.checks)
    rows = "".join(
        f"  {check.state:7}  {check.name:{width}}  {check.finding}\n" for check in diagnosis.checks
    )
    remedy = f"To change that: {diagnosis.remedy}\n" if diagnosis.remedy else ""
    return f"{head}{rows}\n{diagnosis.summary}\n{remedy}"
