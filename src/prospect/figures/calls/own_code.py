"""Whose code a frame is: the user's own, that of installed packages and the system, or a start.

The criteria are the mapped file, the source file if it is known, and names that only standard
libraries have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import alike_labels, first_of_each, is_kernel_frame
from prospect.profile.model import KIND_ELF, KIND_JIT, SOURCE_KINDS
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from prospect.columns.array_types import Bools
    from prospect.figures.stacks.frames import FrameTable
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile

# Directories of the system (hier(7)), of package managers and of toolchains, anywhere in a path.
_INSTALLED = re.compile(
    r"^/(?:usr/(?!local/|src/)|bin/|sbin/|lib(?:32|64|x32)?/|nix/store/|snap/|gnu/store/)"
    r"|^/usr/local/go/|/(?:site-packages|dist-packages|node_modules)/|/lib/python\d\.\d+/"
    r"|/\.cargo/registry/|/\.rustup/|/rustc/[0-9a-f]+/|/pkg/mod/|/\.(?:pyenv|nvm)/versions/"
    r"|/rust/deps/|^<(?!stdin>|string>)"
)
# Namespaces of standard libraries: C++, Rust; Java's packages as perf-map agents write them, and
# code of the JVM itself.
_STANDARD = re.compile(
    r"(?:^|[\s<&*(])(?:std|core|alloc|hashbrown|__gnu_cxx|__cxxabiv1)::|^<*\[|^L?(?:java|javax|jdk|sun|com\.sun)[./]"
    r"|^(?:StubRoutines|Interpreter|I2C/C2I adapters)\s?$"
)
_GO_START = ("runtime.goexit", "runtime.mcall", "runtime.main")
_JS_FILE = re.compile(r"^JS:\S+ (\S+?)(?::\d+)*$")
_JS_NODE = re.compile(r"^(?:node:|internal/|$)")
# Functions in which programs and threads begin: they have all of the time in any case.
_STARTS = re.compile(
    r"^(?:main|_start|_start_c|(?:__)?libc_start_(?:call_)?main\S*|__libc_start_\S+|__clone3?|clone3?"
    r"|start_thread|_dl_start\S*|<module>|Py_(?:Bytes)?Main|Py_RunMain|pymain_\S+"
    r"|runtime\.(?:main|goexit|mstart|mcall)\S*|_bootstrap(?:_inner)?|\S+::main|main\.main"
    r"|_run_module_as_main|_run_code|_call_with_frames_removed|_handle_fromlist|_gcd_import"
    r"|_?Py(?:Eval|Object_(?:Call|Vectorcall)|Vectorcall|Import|Run|Function)_?\w*"
    r"|Builtins_\w*(?:Entry|Trampoline|BuiltinExit)\w*|import_module|node::Start\S*|node::LoadEnvironment"
    r"|StubRoutines.*|Interpreter|JavaMain|JavaCalls::\S+|\w+\.main|\(module\)|\{main\}"
    r"|<main>|block in <main>|<top \(required\)>)$"
)
MODULE = "<module>"  # the code of a Python file outside its functions
IMPORT = "_find_and_load"  # the callee of every import statement of Python
# Parts of a function that have no own name.
_ANONYMOUS = re.compile(
    r"<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>$|\{\{?closure|\{lambda|\.func\d+(?:\.\d+)*$"
    r"|^JS:\S?\s"
)
_NAMELESS = (NameSource.BRACKET, NameSource.BOUNDS)


def is_start(name: str) -> bool:
    """Return whether programs or threads begin in a function of this name."""
    return bool(_STARTS.match(_plain(name)))


def is_anonymous(name: str) -> bool:
    """Return whether a name is that of a lambda, a comprehension or the like."""
    return bool(_ANONYMOUS.search(name))


def is_named(profile: CompleteProfile, frames: FrameTable) -> Bools:
    """Return bool[f]: frames of user space with the name of a function."""
    source = profile.functions.source.take(np.maximum(frames.function_index, 0))
    has_bounds = (frames.function_index >= 0) & np.isin(source, _NAMELESS)
    has_name = np.array([bool(name) for name in frames.name], np.bool_)
    return has_name & ~has_bounds & ~is_kernel_frame(profile, frames)


def is_own_object(profile: Profile) -> Bools:
    """Return bool[o]: objects that neither a package nor the system installed."""
    objects = profile.objects
    has_code = np.isin(objects.kind, (KIND_ELF, KIND_JIT, *SOURCE_KINDS))
    own: Bools = has_code & [not _INSTALLED.search(path) for path in objects.path]
    return own


def is_own_code(profile: CompleteProfile, frames: FrameTable) -> Bools:
    """Return bool[f]: frames of code that is neither installed nor the system's.

    Frames of one name and one object's name may be one (`with_alike_as_one`): they are the user's
    if all of them are.
    """
    kinds = profile.objects.kind
    own_object = is_own_object(profile)
    go = {
        row
        for row, name in zip(frames.object_index.tolist(), frames.name, strict=True)
        if name.startswith(_GO_START)
    }
    files = profile.lines.files if profile.lines is not None else []
    own_file = [not _INSTALLED.search(path) for path in files]
    found = own_object.take(frames.object_index)
    rows = zip(frames.name, frames.object_index.tolist(), frames.file_index.tolist(), strict=True)
    for frame, (name, row, file) in enumerate(rows):
        if not found[frame]:
            continue
        if file >= 0:
            found[frame] = own_file[file]
        elif row in go:
            found[frame] = _is_own_go(name)
        elif kinds[row] not in SOURCE_KINDS:
            found[frame] = _is_own_name(name)
    first = first_of_each(alike_labels(profile, frames))
    is_all = np.ones(len(frames), np.bool_)
    np.logical_and.at(is_all, first, found)
    return is_all.take(first)


def _is_own_go(name: str) -> bool:
    """Whether a Go function is in a module: the standard library's packages have no dot."""
    directory, _, last = name.rpartition("/")
    package = f"{directory}/{last.partition('.')[0]}" if directory else last.partition(".")[0]
    return package == "main" or "." in package.partition("/")[0]


def _is_own_name(name: str) -> bool:
    if script := _JS_FILE.match(name):
        return not (_JS_NODE.match(script[1]) or _INSTALLED.search(script[1]))
    return not _STANDARD.search(_plain(name))


def _plain(name: str) -> str:
    """Return a name without its parameters and template arguments."""
    bare = name.lstrip("<") if not name.startswith("<module>") else name
    return bare.partition("(")[0].partition("<")[0] or name
