import numpy as np

from prospect.profile.builder import NamedAddresses, TableBuilder
from prospect.profile.model import KIND_BPF, KIND_ELF, KIND_KERNEL
from prospect.profile.naming import NameSource


def _named(names, sources, paths, function=None, reason=0):
    rows = np.arange(len(names), dtype=np.int32) if function is None else np.array(function)
    return NamedAddresses(
        address=np.arange(len(rows), dtype=np.uint64) * 16 + 0x1000,
        function=rows.astype(np.int32),
        reason=np.full(len(rows), reason, np.uint8),
        name=names,
        linkage_name=names,
        aliases=[()] * len(names),
        function_address=np.arange(len(names), dtype=np.uint64) * 16 + 0x1000,
        function_size=np.full(len(names), 16, np.uint64),
        is_global=np.ones(len(names), np.bool_),
        source=np.array(sources, np.uint8),
        object_path=paths,
    )


def test_parts_of_the_kernel_are_objects_of_their_own_kind_and_source():
    builder = TableBuilder()
    sources = [NameSource.KALLSYMS, NameSource.BPF, NameSource.BPF]
    paths = ["[kernel]", "bpf_prog_1", "bpf_prog_2"]
    kinds = {"bpf_prog_1": KIND_BPF, "bpf_prog_2": KIND_BPF}
    builder.add("[kernel]", KIND_KERNEL, _named(["a", "b", "c"], sources, paths), part_kinds=kinds)
    objects, functions, _ = builder.tables()
    assert objects.path == paths
    assert objects.kind.tolist() == [KIND_KERNEL, KIND_BPF, KIND_BPF]
    assert objects.source.tolist() == sources
    assert functions.object_index.tolist() == [0, 1, 2]


def test_addresses_without_a_name_share_a_row_an_object_and_reason():
    builder = TableBuilder()
    stripped = NameSource.NO_STRIPPED
    first = builder.add("/a", KIND_ELF, _named([], [], [], [-1, -1], stripped))
    second = builder.add(
        "/b", KIND_ELF, _named(["f"], [NameSource.SYMTAB], ["/b"], [0, -1], stripped)
    )
    objects, functions, locations = builder.tables()
    assert (first, second) == (0, 1)
    assert functions.name == ["", "f", ""]
    assert functions.object_index.tolist() == [0, 1, 1]
    assert locations.function_index.tolist() == [0, 0, 1, 2]
    assert objects.source.tolist() == [stripped, NameSource.SYMTAB]


def test_an_object_without_hits_has_no_source():
    builder = TableBuilder()
    builder.add("/a", KIND_ELF, _named([], [], []))
    assert builder.tables()[0].source.tolist() == [NameSource.NO_COVER]
