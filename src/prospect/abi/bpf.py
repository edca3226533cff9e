"""Constants of the BPF interface under their uapi names.

Source: ``include/uapi/linux/bpf.h``, ``include/uapi/linux/bpf_common.h`` and
``include/uapi/linux/btf.h``, Linux 6.18; the numbers are ABI and never change.
"""

from __future__ import annotations

# enum bpf_cmd
BPF_MAP_CREATE = 0
BPF_MAP_LOOKUP_ELEM = 1
BPF_MAP_UPDATE_ELEM = 2
BPF_MAP_DELETE_ELEM = 3
BPF_PROG_LOAD = 5
BPF_PROG_TEST_RUN = 10
BPF_PROG_GET_NEXT_ID = 11
BPF_PROG_GET_FD_BY_ID = 13
BPF_OBJ_GET_INFO_BY_FD = 15
BPF_RAW_TRACEPOINT_OPEN = 17
BPF_BTF_LOAD = 18
BPF_MAP_LOOKUP_BATCH = 24
BPF_LINK_CREATE = 28
BPF_ENABLE_STATS = 32

# enum bpf_map_type
BPF_MAP_TYPE_HASH = 1
BPF_MAP_TYPE_ARRAY = 2
BPF_MAP_TYPE_PROG_ARRAY = 3
BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4
BPF_MAP_TYPE_PERCPU_ARRAY = 6
BPF_MAP_TYPE_LRU_HASH = 9
BPF_MAP_TYPE_RINGBUF = 27
BPF_MAP_TYPE_TASK_STORAGE = 29

# flags of a map, of an update, of task storage
BPF_F_NO_PREALLOC = 1 << 0
BPF_ANY = 0
BPF_NOEXIST = 1
BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0
# of perf_event_output(): the element of the CPU that it runs on
BPF_F_CURRENT_CPU = 0xFFFFFFFF

# enum bpf_prog_type
BPF_PROG_TYPE_KPROBE = 2
BPF_PROG_TYPE_TRACEPOINT = 5
BPF_PROG_TYPE_PERF_EVENT = 7
BPF_PROG_TYPE_RAW_TRACEPOINT = 17

# enum bpf_stats_type
BPF_STATS_RUN_TIME = 0

# enum bpf_attach_type
BPF_PERF_EVENT = 41
BPF_TRACE_UPROBE_MULTI = 48
BPF_F_UPROBE_MULTI_RETURN = 1

# enum bpf_func_id
BPF_FUNC_map_lookup_elem = 1
BPF_FUNC_map_update_elem = 2
BPF_FUNC_map_delete_elem = 3
BPF_FUNC_ktime_get_ns = 5
BPF_FUNC_get_smp_processor_id = 8
BPF_FUNC_tail_call = 12
BPF_FUNC_get_current_pid_tgid = 14
BPF_FUNC_get_current_comm = 16
BPF_FUNC_perf_event_output = 25
BPF_FUNC_probe_read_user = 112
BPF_FUNC_probe_read_kernel = 113
BPF_FUNC_get_ns_current_pid_tgid = 120
BPF_FUNC_ringbuf_output = 130
BPF_FUNC_task_storage_get = 156
BPF_FUNC_get_current_task_btf = 158
BPF_FUNC_get_attach_cookie = 174
BPF_FUNC_task_pt_regs = 175

# instruction classes
BPF_LD = 0x00
BPF_LDX = 0x01
BPF_ST = 0x02
BPF_STX = 0x03
BPF_JMP = 0x05
BPF_ALU64 = 0x07

# sizes and modes of loads and stores
BPF_W = 0x00
BPF_H = 0x08
BPF_B = 0x10
BPF_DW = 0x18
BPF_IMM = 0x00
BPF_MEM = 0x60
BPF_ATOMIC = 0xC0

# operands: an immediate or a register
BPF_K = 0x00
BPF_X = 0x08

# arithmetic; BPF_ADD is the operation of an atomic addition too
BPF_ADD = 0x00
BPF_SUB = 0x10
BPF_MUL = 0x20
BPF_OR = 0x40
BPF_AND = 0x50
BPF_LSH = 0x60
BPF_RSH = 0x70
BPF_NEG = 0x80
BPF_XOR = 0xA0
BPF_MOV = 0xB0
BPF_ARSH = 0xC0

# jumps
BPF_JA = 0x00
BPF_JEQ = 0x10
BPF_JGT = 0x20
BPF_JGE = 0x30
BPF_JNE = 0x50
BPF_CALL = 0x80
BPF_EXIT = 0x90
BPF_JLT = 0xA0
BPF_JLE = 0xB0
BPF_JCOND = 0xE0

BPF_PSEUDO_MAP_FD = 1

# struct btf_header, struct btf_type
BTF_MAGIC = 0xEB9F
BTF_VERSION = 1
BTF_KIND_INT = 1
BTF_KIND_ARRAY = 3
BTF_KIND_STRUCT = 4
BTF_KIND_FUNC = 12
BTF_KIND_FUNC_PROTO = 13

# enum bpf_core_relo_kind
BPF_CORE_FIELD_BYTE_OFFSET = 0
