"""``prospect control``: ask the daemon of a store for its status, or control it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from prospect.announcing import pluralize
from prospect.cli.commands import CONTROL
from prospect.cli.operands import usual_store
from prospect.cli.terminal import show
from prospect.daemon.control_socket import COMMANDS, NoAnswerError, ask
from prospect.errors import UsageError

if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.store.directory import StoreDirectory


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Send a request, and show the answer.

    Raises:
        ProspectError: the words are invalid, or no daemon answers.
    """
    if not words or words[0] not in COMMANDS:
        from prospect.spelling import suggestion

        what = suggestion(words[0], COMMANDS) if words else ""
        raise UsageError(f"control: give one of {', '.join(COMMANDS)}{what}")
    if (words[0] == "session") != (len(words) == 2):
        raise UsageError(
            "control: give the new session one name: prospect control session NAME"
            if words[0] == "session"
            else CONTROL.unexpected(words[1])
        )
    from prospect.store.directory import StoreDirectory

    path = settings.store or usual_store(settings.target)
    with StoreDirectory(path, target="" if settings.store else settings.target) as store:
        try:
            answer = ask(store, words)
        except NoAnswerError as error:
            if words != ["status"]:
                raise
            answer = _last_status(store, error)
    if settings.format == "json":
        from prospect.render.json.document_fields import indented
        from prospect.render.json.machine_documents import DAEMON

        show(indented(DAEMON, answer))
    else:
        show(status_text(answer))
    return 0


def _last_status(store: StoreDirectory, error: NoAnswerError) -> dict[str, Any]:
    """Return the status that a daemon stored before it stopped answering."""
    from prospect.daemon.status import kept_status

    status = kept_status(store)
    if status is None:
        raise error
    segments = store.segments()
    newest_s = status["newest_s"]
    return status | {
        "newest_age_s": max(time.time() - newest_s, 0.0) if newest_s else None,
        "segments": len(segments),
        "store_bytes": sum(map(store.size_bytes, segments)),
        "no_answer": str(error).removeprefix(f"{store.path}: "),
    }


def status_text(status: dict[str, Any]) -> str:
    """Return the status of a daemon as a table."""
    now_s = time.time()
    age_s = status["newest_age_s"]
    ran_s = max(now_s - status["began_s"], 1e-3)
    percent = 100.0 * status["cpu_s"] / ran_s
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(status["began_s"]))
    rows = {
        **_no_answer(status),
        "store": status["store"],
        "session": status["session"],
        "daemon": f"process {status['pid']}, prospect {status['version']}, since {began}",
        "sampling": (
            f"{status['frequency_hz']} Hz, callers {status['call_graph']},"
            f" windows of {status['window_s']:g} s"
            if status["sampling"]
            else "stopped; prospect control start resumes it"
        ),
        "samples": f"{status['samples']}, {status['lost']} lost",
        "windows": f"{status['windows']} written, {status['windows_lost']} lost"
        + (f", {status['windows_merged']} merged" if status["windows_merged"] else "")
        + (
            f", {status['dropped_for_room']} removed for room" if status["dropped_for_room"] else ""
        ),
        "newest": "none yet" if age_s is None else f"{age_s:.0f} s ago",
        "on disk": (
            f"{status['store_bytes'] / 1e6:.1f} MB in {pluralize(status['segments'], 'segment')}"
        ),
        "no names": f"{pluralize(status['objects_without_names'], 'object')} in the last window",
        "its cost": (
            f"{percent:.2f} % of a CPU, {status['memory_bytes'] / 1e6:.0f} MB of memory,"
            f" {status['child_memory_bytes'] / 1e6:.0f} MB while a window is written"
        ),
    }
    rows["its limits"] = (
        f"{status['cpu_limit_percent']:g} % of the machine (now {status['cpu_percent']:.2f} %),"
        f" {status['memory_limit_bytes'] / 2**20:.0f} MiB (peak"
        f" {status['memory_peak_bytes'] / 2**20:.0f} MiB)"
    )
    if status["goes_without"]:
        since = time.strftime("%H:%M", time.localtime(status["goes_without_since_s"]))
        rows["reduced"] = f"since {since}: windows have {'; '.join(status['goes_without'])}"
    if status.get("ship"):
        rows["sends to"] = status["ship"]
        rows["unsent"] = _unsent(status)
    if status.get("push"):
        rows["collector"] = status["push"]
        rows["pushed"] = (
            f"{pluralize(status['push_windows'], 'window')}, {status['push_waiting']} waiting,"
            f" {status['push_lost']} given up"
            + (f"; {status['push_complaint']}" if status["push_complaint"] else "")
        )
    if status["left_out"]:
        rows["left out"] = _left_out(status["left_out"])
    if status["complaint"]:
        rows["complaint"] = status["complaint"]
    if "removed" in status:
        rows["removed"] = pluralize(status["removed"], "segment")
    return "".join(f"  {name:10} {_shown(str(text))}\n" for name, text in rows.items())


def _no_answer(status: dict[str, Any]) -> dict[str, str]:
    """Return the line about a daemon that does not answer, if it does not."""
    if "no_answer" not in status:
        return {}
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["alive_s"]))
    return {"no answer": f"since {since}: {status['no_answer']}"}


def _left_out(sentences: list[str]) -> str:
    """Join sentences about missing things; those with the same subject become one sentence."""
    joined: dict[str, list[str]] = {}
    for sentence in sentences:
        subject, colon, rest = sentence.partition(": ")
        joined.setdefault(subject + colon, []).append(rest.removesuffix("."))
    return " ".join(f"{subject}{'; '.join(rests)}." for subject, rests in joined.items())


def _unsent(status: dict[str, Any]) -> str:
    """Return the size of what a daemon has not sent yet, and the reason."""
    text = f"{status['ship_waiting_bytes'] / 1e6:.1f} MB"
    if status["ship_waiting_s"]:
        text += f", the oldest {status['ship_waiting_s'] / 3600:.1f} h old"
    if status["ship_lost_windows"]:
        text += f"; {pluralize(status['ship_lost_windows'], 'window')} removed before sending"
    return text + (f"; {status['ship_complaint']}" if status["ship_complaint"] else "")


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
