"""Packs the recorder into one file that a bare Python runs: a zip archive (zipapp).

Modules are source for Python 3.9, or byte code if the target's Python has the same format as this
one: compiling would take a third of a second before COMMAND's start.

The archive has the modules that an agent imports, which need only the standard library; a test
keeps numpy and other packages out of it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import marshal
import zipfile
import zlib
from contextlib import suppress
from importlib.machinery import BYTECODE_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from prospect import target
from prospect.symbols.cache_directory import CacheDirectory
from prospect.target.target_limits import MOST_PACKAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_PYTHON = (3, 9)
# Modules that need numpy or zstandard, or whose work is not done there: options that need them are
# refused before anything is sent, or the recorder works without them.
LEFT_OUT = frozenset(
    {
        "prospect.capture.compressed_sink",
        "prospect.capture.machine.container_servers",
        "prospect.capture.machine.image_copies",
        "prospect.capture.machine.served_files",
        "prospect.capture.events.probe_places",
        "prospect.recording.mending",
        "prospect.recording.counted_functions",
        "prospect.recording.sampled_images",
        "prospect.render.notebook",
    }
)
_ROOT = Path(target.__path__[0]).parent
_PYC_HEADER_BYTES = 16  # PEP 552


def package(agent: str, magic: bytes = b"") -> bytes:
    """Return the archive, compressed by zlib; from the cache if possible.

    Args:
        agent: the module that runs there.
        magic: `importlib.util.MAGIC_NUMBER` of the target's Python.
    """
    is_same = magic == importlib.util.MAGIC_NUMBER
    kept = CacheDirectory.of_user()
    name = f"{_identity(agent, is_same=is_same)}.recorder" if kept else ""
    if kept and (found := kept.map(name, 1)):
        return bytes(found)
    packed = io.BytesIO()
    # Modules are not compressed: the whole, which the relay unpacks, is a third smaller this way.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for module, source in sorted(modules(agent).items()):
            path = _inside(module, BYTECODE_SUFFIXES[0] if is_same else SOURCE_SUFFIXES[0])
            archive.writestr(path, _byte_code(module, source) if is_same else lowered(source))
    # 3 % smaller than at level 6, for 0.3 s once; CPython 3.13 has more byte code than 3.11.
    made = zlib.compress(packed.getvalue(), zlib.Z_BEST_COMPRESSION)
    if kept:
        kept.put(name, [made])
        kept.evict((".recorder",), MOST_PACKAGE_BYTES)
    return made


def _identity(agent: str, *, is_same: bool) -> str:
    """Return a name that changes with this installation."""
    digest = hashlib.blake2b(importlib.util.MAGIC_NUMBER, digest_size=16)
    for path in sorted(_ROOT.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path} {status.st_mtime_ns} {status.st_size}".encode())
    digest.update(agent.encode())
    return f"{digest.hexdigest()}-{'code' if is_same else 'source'}"


def modules(agent: str) -> dict[str, str]:
    """Return name → source, for the modules to pack."""
    found: dict[str, str] = {}
    wanted = [agent]
    while wanted:
        name = wanted.pop()
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            if module not in found and module not in LEFT_OUT:
                source = _source(module)
                if source is not None:
                    found[module] = source
                    wanted += _imported(ast.parse(source))
    return found


def lowered(source: str) -> str:
    """Return a module's source for Python 3.9."""
    return ast.unparse(_lowered_tree(source))


def _lowered_tree(source: str) -> ast.Module:
    tree = ast.parse(source)
    _Lowering().visit(tree)
    return ast.fix_missing_locations(tree)


class _Lowering(ast.NodeTransformer):
    """Changes a module for Python 3.9, and removes parts for people and type checkers."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Remove the types of arguments and results; those of classes' fields stay."""
        self.generic_visit(node)
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Change calls for Python 3.9: zip() without `strict`, isinstance() without `|`.

        `strict` finds only mistakes that tests find too.
        """
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "zip":
            node.keywords = [word for word in node.keywords if word.arg != "strict"]
        if name in {"isinstance", "issubclass"} and isinstance(node.args[1], ast.BinOp):
            node.args[1] = ast.Tuple(_alternatives(node.args[1]), ast.Load())
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace a key with a starred part, which needs Python 3.11, with a call of tuple()."""
        self.generic_visit(node)
        key = node.slice
        if isinstance(key, ast.Tuple) and any(isinstance(one, ast.Starred) for one in key.elts):
            tuple_ = ast.Name("tuple", ast.Load())
            node.slice = ast.Call(tuple_, [ast.List(key.elts, ast.Load())], [])
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Replace an f-string with format(): Python before 3.12 ends one at inner quotes."""
        template, values = self._template(node)
        return ast.Call(ast.Attribute(ast.Constant(template), "format", ast.Load()), values, [])

    def _template(self, node: ast.JoinedStr) -> tuple[str, list[ast.expr]]:
        """Return the string and the arguments of format()."""
        text, values = "", list[ast.expr]()
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                values.append(self.visit(part.value))
                text += "{" + (f"!{chr(part.conversion)}" if part.conversion >= 0 else "")
                if isinstance(part.format_spec, ast.JoinedStr):
                    spec, more = self._template(part.format_spec)
                    text += f":{spec}"
                    values += more
                text += "}"
            elif isinstance(part, ast.Constant):
                text += str(part.value).replace("{", "{{").replace("}", "}}")
        return text, values

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Remove code for type checkers."""
        self.generic_visit(node)
        return node.orelse if _is_for_types(node) else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit children, and remove docstrings."""
        super().generic_visit(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            del node.body[0]
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.body:
            node.body.append(ast.Pass())
        return node


def _alternatives(union: ast.expr) -> list[ast.expr]:
    """Return the types of a union, such as ``list | tuple``."""
    if isinstance(union, ast.BinOp) and isinstance(union.op, ast.BitOr):
        return [*_alternatives(union.left), *_alternatives(union.right)]
    return [union]


def _is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of Prospect that a module imports anywhere, except for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _is_for_types(node):
            yield from _imported(ast.Module(node.orelse, []))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("prospect"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prospect"):
            # `from prospect.capture import kernel` may mean a module.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.expr):  # expressions have no statements
            yield from _imported(node)


def _source(module: str) -> str | None:
    """Return a module's source, None if the name is not that of a module."""
    place = _place(module)
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        with suppress(OSError):
            return path.read_text(encoding="utf-8")
    return None


def _place(module: str) -> Path:
    """Return the path of a module, without ``.py``."""
    return _ROOT.parent.joinpath(*module.split("."))


def _inside(module: str, suffix: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__{suffix}" if _place(module).is_dir() else f"{path}{suffix}"


def _byte_code(module: str, source: str) -> bytes:
    """Return a module's byte code as a .pyc file that needs no source."""
    code = compile(_lowered_tree(source), f"<{module}>", "exec", dont_inherit=True, optimize=2)
    header = importlib.util.MAGIC_NUMBER + bytes(_PYC_HEADER_BYTES - 4)
    return header + marshal.dumps(_without_lines(code))


def _without_lines(code: CodeType) -> CodeType:
    """Return byte code without its table of source lines, which is 40 % of it."""
    constants = (
        _without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    return code.replace(co_linetable=b"", co_consts=tuple(constants))
