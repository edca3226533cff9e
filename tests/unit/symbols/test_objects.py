import pytest

from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_KERNEL, KIND_UNKNOWN, KIND_VDSO
from prospect.symbols.objects import classify


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/usr/bin/true", KIND_ELF),
        (b"/tmp/with space\nand line", KIND_ELF),
        (b"/usr/lib/x.so (deleted)", KIND_ELF),
        (b"relative", KIND_ELF),
        (b"", KIND_ANON),
        (b"//anon", KIND_ANON),
        (b"[anon:v8]", KIND_ANON),
        (b"[anon_shmem:dotnet]", KIND_ANON),
        (b"[heap]", KIND_ANON),
        (b"[stack]", KIND_ANON),
        (b"[stack:4711]", KIND_ANON),
        (b"[uprobes]", KIND_ANON),
        (b"/memfd:doublemapper (deleted)", KIND_ANON),
        (b"anon_inode:[perf_event]", KIND_ANON),
        (b"/anon_hugepage (deleted)", KIND_ANON),
        (b"/dev/zero (deleted)", KIND_ANON),
        (b"/SYSV00000000 (deleted)", KIND_ANON),
        (b"[vdso]", KIND_VDSO),
        (b"[vsyscall]", KIND_VDSO),
        (b"[kernel.kallsyms]_text", KIND_KERNEL),
        (b"[guest.kernel.kallsyms]", KIND_UNKNOWN),
        (b"[vvar]", KIND_UNKNOWN),
    ],
)
def test_the_name_of_a_mapping_says_its_kind(path: bytes, kind: int) -> None:
    assert classify(path) == kind
