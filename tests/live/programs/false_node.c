/* Looks like Node with V8 13.6 and is not: what it has for frames, functions and strings misleads.
 * MODE: l a long chain of frames, r one that leads to itself, t frames of no function, n ever new
 * functions. SECONDS follows. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int major_ __asm__("_ZN2v88internal7Version6major_E") = 13;
int minor_ __asm__("_ZN2v88internal7Version6minor_E") = 6;
#define NUMBER(name, value) int v8dbg_##name = value
NUMBER(class_JSFunction__shared__SharedFunctionInfo, 32);
NUMBER(class_SharedFunctionInfo__name_or_scope_info__Object, 24);
NUMBER(class_SharedFunctionInfo__script__Tagged_HeapObject_, 40);
NUMBER(class_SharedFunctionInfo__flags__int, 56);
NUMBER(scopeinfo_idx_first_vars, 5);
NUMBER(frametype_BuiltinExitFrame, 27);
NUMBER(type_JSFunction__JS_FUNCTION_TYPE, 2065);
NUMBER(type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 282);
NUMBER(type_ScopeInfo__SCOPE_INFO_TYPE, 280);
NUMBER(type_Script__SCRIPT_TYPE, 167);
NUMBER(type_BytecodeArray__BYTECODE_ARRAY_TYPE, 186);
NUMBER(type_Code__CODE_TYPE, 187);
NUMBER(type_InstructionStream__INSTRUCTION_STREAM_TYPE, 192);
NUMBER(type_ByteArray__BYTE_ARRAY_TYPE, 217);
NUMBER(type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE, 196);
NUMBER(type_InterpreterData__INTERPRETER_DATA_TYPE, 188);

enum { FRAMES = 4096, FRAME = 128, FUNCTIONS = 1 << 16 };
static uint64_t maps[3][4], isolate[0x8000 / 8];
static uint64_t *frames, *functions, *shared, *text;

static uint64_t tagged(void *object) { return (uint64_t)object + 1; }

static uint64_t *of_type(uint64_t *map, int type) {
  ((uint16_t *)map)[6] = type;
  return map;
}

int main(int argc, char **argv) {
  double seconds = argc > 2 ? atof(argv[2]) : 1;
  int mode = argv[1][0];
  frames = mmap(0, FRAMES * FRAME + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  functions = mmap(0, FUNCTIONS * 48L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  shared = mmap(0, FUNCTIONS * 80L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  text = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(text, 'x', 1 << 20);
  text[0] = tagged(of_type(maps[0], 8 | 0));  /* one byte, sequential */
  ((uint32_t *)text)[3] = 1 << 30;            /* as long as may be */
  for (int i = 0; i < FUNCTIONS; i++) {
    shared[10 * i] = tagged(of_type(maps[1], 282));
    shared[10 * i + 3] = tagged(text);
    shared[10 * i + 5] = tagged(text);
    ((uint32_t *)&shared[10 * i + 7])[1] = i;
    functions[6 * i + 4] = tagged(&shared[10 * i]);
  }
  char *base = (char *)frames + 256;
  isolate[0x5A70 / 8] = 0x10000000;
  isolate[0x5A70 / 8 + 1] = 0x10000400;
  isolate[0x1D8 / 8] = (uint64_t)base + FRAMES * FRAME;
  for (int i = 0; i < FRAMES - 4; i++) {
    uint64_t *frame = (uint64_t *)(base + (long)i * FRAME);
    frame[0] = mode == 'r' ? (uint64_t)frame : (uint64_t)frame + FRAME;
    frame[1] = 0x20000000 + 4096 * i;
    frame[-1] = mode == 't' ? 18 << 1 : tagged(text);
    frame[-2] = tagged(&functions[6 * (i % FUNCTIONS)]);
  }
  struct timespec begun, now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
  unsigned next = 0;
  do {
    for (int i = 0; i < 128; i++) {
      uint64_t *frame = (uint64_t *)(base + (long)i * FRAME);
      if (mode == 'n') frame[-2] = tagged(&functions[6 * (next++ % FUNCTIONS)]);
    }
    register uint64_t isolate_in __asm__("r13") = (uint64_t)isolate + 128;
    register uint64_t frame_in __asm__("rbx") = (uint64_t)base;
    __asm__ volatile(
        "push %%rbp\n mov %%rbx, %%rbp\n mov $200000, %%ecx\n 1: dec %%ecx\n jnz 1b\n pop %%rbp"
        : : "r"(isolate_in), "r"(frame_in) : "rcx", "memory");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec - begun.tv_sec + 1e-9 * (now.tv_nsec - begun.tv_nsec) < seconds);
  return 0;
}
