"""``prospect`` and ``python -m prospect``: the command line, and what ends it early.

The command line is imported within `main`, so that Ctrl-C and limits that come while Python still
imports it end it as they do later.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_MANY_OBJECTS = 50_000
_NO_MEMORY = (
    b"prospect: no memory is left: raise the limit (ulimit -v), or record only (prospect record)"
    b" and report without it\n"
)


def main() -> int:
    """Run the command line and end this process with its exit status.

    Everything is written by then, and the kernel takes memory back faster than the interpreter
    takes its objects apart: 5 ms of a recording's 60. Returns the status only where that is wanted
    anyway, by a profiler or a debugger, or where the rest of the output cannot be written.

    Raises:
        ImportError: as `run`.
    """
    status = run()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (OSError, ValueError):
        return status
    if not (sys.gettrace() or sys.getprofile()):
        os._exit(status)
    return status


def run() -> int:
    """Run the command line and return its exit status.

    Raises:
        ImportError: a library is missing or broken. If the address space is limited, one line
            says that instead: then it is why.
    """
    try:
        import gc  # noqa: PLC0415 - Ctrl-C while it loads ends this too

        # Objects made before COMMAND's start stay until the end: the collector need not visit them.
        gc.set_threshold(_MANY_OBJECTS)
        if "PROSPECT_STARTED" in os.environ:
            from prospect import started  # noqa: PLC0415 - only from the command `prospect`

            started.restore()
        from prospect.cli.main import main as run_command  # noqa: PLC0415 - Ctrl-C while it loads ends this too

        return run_command()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ImportError, MemoryError, RuntimeError, SystemError) as error:
        if _is_of_control_c(error):
            return _INTERRUPTED
        # A SystemError: out of memory, the interpreter may lose the exception that says so.
        try:
            limit = _address_space_bytes()
            if limit:
                said = (
                    f"{limit // 1_000_000} MB of address space are not enough: raise the limit"
                    " (ulimit -v), or record only (prospect record) and report without it"
                )
            elif isinstance(error, MemoryError):
                said = "out of memory: report on a shorter recording, or one of a lower -H"
            else:
                raise
            sys.stderr.write(f"prospect: {said}\n")
        except MemoryError:
            # Not even room for a line to be made: this one is there.
            os.write(2, _NO_MEMORY)
        return 1


def _is_of_control_c(error: BaseException | None) -> bool:
    """Say whether Ctrl-C is behind an error.

    A library that is interrupted as it is imported may take that for its own fault, as numpy does.
    """
    while error:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _address_space_bytes() -> int:
    """Return the limit on this process's address space, 0 for none.

    Without the module `resource`: there may be no room left to import it.
    """
    try:
        limits = os.open("/proc/self/limits", os.O_RDONLY)
        lines = os.read(limits, 1 << 12).splitlines()
        os.close(limits)
    except OSError:
        return 0
    for line in lines:
        if line.startswith(b"Max address space"):
            soft = line.split()[3]
            return int(soft) if soft.isdigit() else 0
    return 0


if __name__ == "__main__":
    # `python -m` looks for modules in the working directory first, whatever is there.
    if not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}/prospect/"):
        del sys.path[0]
    sys.exit(main())
