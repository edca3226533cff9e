"""``prospect`` and ``python -m prospect``: run the command line, and handle what ends it early.

`run` imports the command line, so that Ctrl-C and exceeded limits during the import are handled as
later ones are.
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

    Everything is written by then, and the kernel frees memory faster than the interpreter frees its
    objects: 5 ms of a recording's 60. Returns the status only for a profiler or a debugger, or if
    the rest of the output cannot be written.

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
        ImportError: a library is missing or broken. If the address space is limited, the limit is
            the reason, and one line reports it instead.
    """
    try:
        import gc  # noqa: PLC0415 - Ctrl-C while it loads ends this too

        # Objects made before COMMAND's start live until the end: the collector need not visit them.
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
        # Out of memory, the interpreter may lose the exception, and raise a SystemError.
        try:
            limit = _address_space_bytes()
            if limit:
                message = (
                    f"{limit // 1_000_000} MB of address space are not enough: raise the limit"
                    " (ulimit -v), or record only (prospect record) and report without it"
                )
            elif isinstance(error, MemoryError):
                message = "out of memory: report on a shorter recording, or one of a lower -H"
            else:
                raise
            sys.stderr.write(f"prospect: {message}\n")
        except MemoryError:
            # There is no memory to make a line.
            os.write(2, _NO_MEMORY)
        return 1


def _is_of_control_c(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error.

    A library that is interrupted during its import may raise an error of its own, as numpy does.
    """
    while error:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _address_space_bytes() -> int:
    """Return the limit on this process's address space, 0 for none.

    There may be no memory left to import the module `resource`.
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
    # `python -m` looks for modules in the working directory first, which is untrusted.
    if not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}/prospect/"):
        del sys.path[0]
    sys.exit(main())
