"""The messages of google/pprof's ``proto/profile.proto``, as far as profiles use them.

Built from field numbers and types instead of being compiled, so that tests need no compiler.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_INT64, _UINT64, _BOOL, _STRING, _MESSAGE = 3, 4, 8, 9, 11
_ONE, _MANY = 1, 3

_MESSAGES: dict[str, list[tuple[int, str, int, int, str]]] = {
    "ValueType": [(1, "type", _INT64, _ONE, ""), (2, "unit", _INT64, _ONE, "")],
    "Label": [
        (1, "key", _INT64, _ONE, ""),
        (2, "str", _INT64, _ONE, ""),
        (3, "num", _INT64, _ONE, ""),
        (4, "num_unit", _INT64, _ONE, ""),
    ],
    "Sample": [
        (1, "location_id", _UINT64, _MANY, ""),
        (2, "value", _INT64, _MANY, ""),
        (3, "label", _MESSAGE, _MANY, "Label"),
    ],
    "Mapping": [
        (1, "id", _UINT64, _ONE, ""),
        (2, "memory_start", _UINT64, _ONE, ""),
        (3, "memory_limit", _UINT64, _ONE, ""),
        (4, "file_offset", _UINT64, _ONE, ""),
        (5, "filename", _INT64, _ONE, ""),
        (6, "build_id", _INT64, _ONE, ""),
        (7, "has_functions", _BOOL, _ONE, ""),
        (8, "has_filenames", _BOOL, _ONE, ""),
        (9, "has_line_numbers", _BOOL, _ONE, ""),
        (10, "has_inline_frames", _BOOL, _ONE, ""),
    ],
    "Line": [(1, "function_id", _UINT64, _ONE, ""), (2, "line", _INT64, _ONE, "")],
    "Location": [
        (1, "id", _UINT64, _ONE, ""),
        (2, "mapping_id", _UINT64, _ONE, ""),
        (3, "address", _UINT64, _ONE, ""),
        (4, "line", _MESSAGE, _MANY, "Line"),
        (5, "is_folded", _BOOL, _ONE, ""),
    ],
    "Function": [
        (1, "id", _UINT64, _ONE, ""),
        (2, "name", _INT64, _ONE, ""),
        (3, "system_name", _INT64, _ONE, ""),
        (4, "filename", _INT64, _ONE, ""),
        (5, "start_line", _INT64, _ONE, ""),
    ],
    "Profile": [
        (1, "sample_type", _MESSAGE, _MANY, "ValueType"),
        (2, "sample", _MESSAGE, _MANY, "Sample"),
        (3, "mapping", _MESSAGE, _MANY, "Mapping"),
        (4, "location", _MESSAGE, _MANY, "Location"),
        (5, "function", _MESSAGE, _MANY, "Function"),
        (6, "string_table", _STRING, _MANY, ""),
        (7, "drop_frames", _INT64, _ONE, ""),
        (8, "keep_frames", _INT64, _ONE, ""),
        (9, "time_nanos", _INT64, _ONE, ""),
        (10, "duration_nanos", _INT64, _ONE, ""),
        (11, "period_type", _MESSAGE, _ONE, "ValueType"),
        (12, "period", _INT64, _ONE, ""),
        (13, "comment", _INT64, _MANY, ""),
        (14, "default_sample_type", _INT64, _ONE, ""),
    ],
}


def pprof_profile(data: bytes) -> Any:
    """Return the message `Profile` that `data` is; fails on fields that it does not have."""
    profile, known = (message() for message in [_profile_class()] * 2)
    profile.ParseFromString(data)
    known.CopyFrom(profile)
    known.DiscardUnknownFields()
    assert known.ByteSize() == profile.ByteSize(), "a field that profile.proto does not have"
    return profile


def _profile_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="perftools.profiles", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind, label, type_name in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=label,
                type_name=f".perftools.profiles.{type_name}" if type_name else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("perftools.profiles.Profile")
    return message_factory.GetMessageClass(found)
