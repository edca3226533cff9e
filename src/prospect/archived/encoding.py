"""Answers → the section of an archive. `decoding` is its other half.

Tables of one kind stand one behind the other in columns, with how long each is; texts are numbered
over the whole archive, owners too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.archived.answers import Image, Owner
from prospect.archived.container import pack, text_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.archived.answers import Answers, Asked
    from prospect.symbols.objects import ObjectKey

_Columns = dict[str, "NDArray[Any]"]
_Scalar = TypeVar("_Scalar", bound=np.generic)


class _Numbering:
    """Numbers of texts and owners, given as they come up."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.owners: dict[Owner, int] = {}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def text_rows(self, texts: Iterable[str]) -> NDArray[np.int32]:
        return np.array([self.text(text) for text in texts], np.int32)

    def owner(self, owner: Owner) -> int:
        return self.owners.setdefault(owner, len(self.owners))

    def object(self, key: ObjectKey) -> int:
        return self.owner(Owner(key))


def encode(answers: Answers) -> bytes:
    """Return the section that holds these answers."""
    numbers = _Numbering()
    asked = [(owner, one) for owner, several in answers.names.items() for one in several]
    columns = (
        _name_columns([one for _, one in asked], numbers)
        | _line_columns(answers, numbers)
        | _code_columns(answers, numbers)
        | _source_columns(answers, numbers)
    )
    images, columns["image"] = _images(answers, numbers)
    dumps = answers.jit_dumps
    columns["jit"] = np.frombuffer(b"".join(dumps.values()), np.uint8)
    facts = {
        "origin": answers.origin,
        "recorded_at": answers.recorded_at,
        "limits": list(answers.limits),
        "process_notes": [list(note) for note in answers.process_notes],
        "asked": [_facts_of(numbers.owner(owner), one) for owner, one in asked],
        "images": images,
        "jit": [[pid, len(content)] for pid, content in dumps.items()],
        "lines": [[numbers.object(key), one.note] for key, one in answers.lines.items()],
    }
    facts["owners"] = [_owner_fields(owner) for owner in numbers.owners]
    return pack(facts, columns | text_columns(list(numbers.texts)))


def _owner_fields(owner: Owner) -> list[Any]:
    key = owner.key
    path = key.path.decode("utf-8", "surrogateescape")
    numbers = [key.major, key.minor, key.inode, key.kind]
    life = [key.life] if key.life else []
    return [path, key.build_id.hex(), *numbers, list(owner.pids), *life]


def _facts_of(owner: int, asked: Asked) -> list[Any]:
    answer = asked.answer
    return [owner, answer.path, answer.kind, answer.build_id, answer.note, answer.part_kinds]


def _name_columns(asked: Sequence[Asked], numbers: _Numbering) -> _Columns:
    named = [one.answer.named for one in asked]
    aliases = [alias for part in named for several in part.aliases for alias in several]
    return {
        "asked_count": _counts(len(one.address) for one in asked),
        "asked": _joined([one.address for one in asked], np.uint64),
        # Of an image the distance is the same over a whole segment.
        "distance": _joined(
            [part.address - one.address for one, part in zip(asked, named, strict=True)], np.uint64
        ),
        "function": _joined([part.function for part in named], np.int32),
        "reason": _joined([part.reason for part in named], np.uint8),
        "function_count": _counts(len(part.name) for part in named),
        "name": numbers.text_rows(name for part in named for name in part.name),
        "raw_name": numbers.text_rows(name for part in named for name in part.raw_name),
        "alias_count": _counts(len(several) for part in named for several in part.aliases),
        "alias": numbers.text_rows(aliases),
        "function_address": _joined([part.function_address for part in named], np.uint64),
        "function_size": _joined([part.function_size for part in named], np.uint64),
        "is_global": _joined([part.is_global.astype(np.uint8) for part in named], np.uint8),
        "source": _joined([part.source for part in named], np.uint8),
        "object_path": numbers.text_rows(path for part in named for path in part.object_path),
    }


def _line_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    stretches = list(answers.lines.values())
    columns: _Columns = {
        "stretch_count": _counts(len(one.start) for one in stretches),
        "stretch": _joined([one.start for one in stretches], np.uint64),
        "stretch_frame": _joined([one.node for one in stretches], np.int32),
    }
    tree = answers.tree
    none = np.zeros(0, np.int32)
    if tree is None:
        frames: _Columns = {"frame_name": none, "frame_file": none, "frame_parent": none}
        return columns | frames | {"frame_line": np.zeros(0, np.uint32)}
    text_row = np.append(numbers.text_rows(tree.texts), np.int32(-1))
    return columns | {
        "frame_parent": tree.parent,
        "frame_name": text_row.take(tree.name),
        "frame_file": text_row.take(tree.file),
        "frame_line": tree.line,
    }


def _code_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    codes = list(answers.code.values())
    owners = [numbers.owner(owner) for owner, _ in answers.code]
    return {
        "code_owner": np.array(owners, np.int32),
        "code_start": np.array([start for _, start in answers.code], np.uint64),
        "code_count": _counts(len(code.content) for code in codes),
        "code_machine": np.array([code.machine for code in codes], np.uint32),
        "code_reason": numbers.text_rows(code.reason for code in codes),
        "code": np.frombuffer(b"".join(code.content for code in codes), np.uint8),
    }


def _source_columns(answers: Answers, numbers: _Numbering) -> _Columns:
    return {
        "source_file": numbers.text_rows(file for file, _ in answers.source),
        "source_line": np.array([line for _, line in answers.source], np.uint32),
        "source_text": numbers.text_rows(answers.source.values()),
    }


def _images(answers: Answers, numbers: _Numbering) -> tuple[list[Any], NDArray[np.uint8]]:
    """Return, by image, its owner and where its pieces lie, and the bytes of all pieces."""
    facts: list[Any] = []
    contents = []
    for key, image in answers.images.items():
        row = numbers.object(key)
        if isinstance(image, Image):
            ranges = [[offset, len(piece)] for offset, piece in image.pieces]
            facts.append([row, image.size, ranges])
            contents += [piece for _, piece in image.pieces]
        else:
            facts.append([row, int(image.reason), image.note])
    return facts, np.frombuffer(b"".join(contents), np.uint8)


def _counts(counts: Iterable[int]) -> NDArray[np.uint32]:
    return np.array(list(counts), np.uint32)


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)
