import numpy as np
import pytest

from builders.stack_copies import CODE, JIT, STACK, OneImage, chains, rule, samples
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.errors import ProspectError
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind

START, MAIN, WORK, LEAF, STUB, HANDLER, TRAMPOLINE, BY_RBX, DYNAMIC, BARE, PYTHON, SWITCH = (
    0x100 * number for number in range(1, 13)
)
# Rules by address in the image, whose addresses in the process are 0x1000 more.
FUNCTIONS = {
    CODE - 0x1000 + START: rule(rules.KIND_END),
    CODE - 0x1000 + MAIN: rule(rules.KIND_SP, 32, fp=-16, second=-24),
    CODE - 0x1000 + WORK: rule(rules.KIND_FP, 16, fp=-16),
    CODE - 0x1000 + LEAF: rule(rules.KIND_SP, 8),
    CODE - 0x1000 + STUB: rule(rules.KIND_PLT, 8, number=11),
    CODE - 0x1000 + HANDLER: rule(rules.KIND_SP, 16),
    CODE - 0x1000 + TRAMPOLINE - 1: rule(rules.KIND_SIGNAL, 160),
    CODE - 0x1000 + TRAMPOLINE + 16: rules.NO_ROW,
    CODE - 0x1000 + BY_RBX: rule(rules.KIND_REGISTER, 16, number=3),
    CODE - 0x1000 + DYNAMIC: rule(rules.KIND_DEREF, 8, number=7),
    CODE - 0x1000 + BARE: rules.NO_ROW,
    CODE - 0x1000 + PYTHON: rules.TRAMPOLINE,
    CODE - 0x1000 + SWITCH: rules.SWITCH,
}
# What lies from main's return address on: the end of the chain.
IN_START = CODE + START + 5
FROM_MAIN = [1, 2, 3, IN_START, 0, 0]


def one(state, **keywords):
    unwound = unwind(samples([state], **keywords), OneImage(FUNCTIONS))
    return chains(unwound)[0], int(unwound.end[0]), int(unwound.needed_bytes[0])


def at(function, offset=4):
    return CODE + function + offset


def test_frames_by_stack_pointer_and_by_frame_pointer():
    # leaf ← work (a frame of 3 words) ← main ← start
    words = [at(WORK), 7, 7, 0, at(MAIN), *FROM_MAIN]
    chain, end, _ = one({"pc": at(LEAF), "words": words, "fp": STACK + 24})
    assert chain == [at(LEAF), at(WORK), at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


def test_a_call_that_is_a_functions_last_instruction():
    # It returns to where the next function begins, and is looked up before it.
    words = [CODE + STUB, *FROM_MAIN]
    chain, end, _ = one({"pc": at(HANDLER), "words": [0, *words[:1], at(MAIN), *FROM_MAIN]})
    assert chain == [at(HANDLER), CODE + STUB, at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


@pytest.mark.parametrize(("offset", "pushed"), [(6, []), (11, [9])])
def test_a_linkage_stub_before_and_after_its_push(offset, pushed):
    chain, end, _ = one({"pc": CODE + STUB + offset, "words": [*pushed, at(MAIN), *FROM_MAIN]})
    assert chain == [CODE + STUB + offset, at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


def test_a_signal_interrupts_a_function_at_its_first_instruction():
    context = [0] * 40
    saved_sp = STACK + 8 * (2 + len(context))
    context[120 // 8], context[160 // 8], context[168 // 8] = STACK + 5, saved_sp, CODE + LEAF
    words = [0, CODE + TRAMPOLINE, *context, at(MAIN), *FROM_MAIN]
    chain, end, _ = one({"pc": at(HANDLER), "words": words})
    assert chain == [at(HANDLER), CODE + TRAMPOLINE, CODE + LEAF, at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


def test_a_frame_by_another_register_of_the_sample():
    words = [0, 0, 0, at(MAIN), *FROM_MAIN]
    chain, end, _ = one({"pc": at(BY_RBX), "words": words, 3: STACK + 16}, registers=[3])
    assert chain == [at(BY_RBX), at(MAIN), IN_START]
    assert end == interface.END_COMPLETE
    assert one({"pc": at(BY_RBX), "words": words})[:2] == ([at(BY_RBX)], interface.END_REGISTER)


def test_rbx_is_followed_through_what_saved_it():
    # main here was called by the function of the register, and keeps its rbx at CFA - 24.
    frame = STACK + 8 * 8
    words = [at(MAIN), 0, frame, 0, at(BY_RBX), 0, 0, 0, 0, at(MAIN), *FROM_MAIN]
    states = [
        {"pc": at(LEAF), "words": words, 3: 77},
        {"pc": at(LEAF), "words": [at(MAIN), *FROM_MAIN]},
    ]
    unwound = unwind(samples(states, registers=[3]), OneImage(FUNCTIONS))
    assert chains(unwound) == [
        [at(LEAF), at(MAIN), at(BY_RBX), at(MAIN), IN_START],
        [at(LEAF), at(MAIN), IN_START],
    ]
    assert unwound.end.tolist() == [interface.END_COMPLETE] * 2


def test_a_frame_whose_address_lies_on_the_stack():
    chain, end, _ = one({"pc": at(DYNAMIC), "words": [0, STACK + 32, 0, at(MAIN), *FROM_MAIN]})
    assert chain == [at(DYNAMIC), at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


def test_code_of_an_image_without_rows_has_its_return_address_at_sp():
    chain, end, _ = one({"pc": at(BARE), "words": [at(MAIN), *FROM_MAIN]})
    assert chain == [at(BARE), at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


def test_a_switch_of_stacks_ends_a_chain_unless_its_frame_record_is_there():
    other_stack = 0xC000_0000_0000
    words = [at(SWITCH), 0, 0, at(MAIN), *FROM_MAIN]
    state = {"pc": at(LEAF), "words": words, "fp": other_stack}
    unwound = unwind(samples([state]), OneImage(FUNCTIONS))
    assert chains(unwound) == [[at(LEAF), at(SWITCH)]]
    assert unwound.end.tolist() == [interface.END_SWITCHED]
    assert unwound.last_fp.tolist() == [other_stack]
    whole = [at(LEAF), at(SWITCH), at(MAIN), IN_START], interface.END_COMPLETE
    assert one({**state, "fp": STACK + 16})[:2] == whole
    # The runtime clears the register where nothing is to be returned to.
    done = [at(LEAF), at(SWITCH)], interface.END_COMPLETE
    assert one({**state, "fp": 0})[:2] == done


def test_the_trampoline_of_cpython_is_followed_whether_or_not_it_keeps_the_frame_register():
    whole = [at(LEAF), at(PYTHON), at(WORK), at(MAIN), IN_START]
    # work's frame: its saved frame register at word 4, its return address behind it.
    work = [at(WORK), 7, 0, at(MAIN), *FROM_MAIN]
    work_fp = STACK + 8 * 4
    padded, pushed = [at(PYTHON), 9, *work], [at(PYTHON), work_fp, *work]
    chain, end, _ = one({"pc": at(LEAF), "words": padded, "fp": work_fp})
    assert (chain, end) == (whole, interface.END_COMPLETE)
    chain, end, _ = one({"pc": at(LEAF), "words": pushed, "fp": STACK + 8})
    assert (chain, end) == (whole, interface.END_COMPLETE)
    # Where it was interrupted itself nothing says what it has pushed so far.
    assert one({"pc": at(PYTHON), "words": [9, 9, 9]})[:2] == ([at(PYTHON)], interface.END_NO_ROW)


def test_code_without_an_image_is_followed_by_frame_pointers():
    words = [0, STACK + 32, JIT + 90, 0, 0, at(MAIN), *FROM_MAIN]
    chain, end, _ = one({"pc": JIT + 8, "words": words, "fp": STACK + 8})
    assert chain == [JIT + 8, JIT + 90, at(MAIN), IN_START]
    assert end == interface.END_COMPLETE


@pytest.mark.parametrize("fp", [0, STACK - 8, STACK + 9, STACK + 8 * 40, 2**64 - 8])
def test_a_frame_pointer_that_is_none_ends_the_chain(fp):
    words = [0, STACK + 32, JIT + 90, 0, 0, at(MAIN), *FROM_MAIN]
    assert one({"pc": JIT + 8, "words": words, "fp": fp})[:2] == ([JIT + 8], interface.END_NO_ROW)


@pytest.mark.parametrize("kept", range(4))
def test_a_cut_copy_says_how_much_was_needed(kept):
    words = [at(MAIN), *FROM_MAIN][: kept + 1]
    chain, end, needed = one({"pc": at(LEAF), "words": words})
    assert chain == [at(LEAF), at(MAIN)]
    assert (end, needed) == (interface.END_CUT, 8 * 5)


def test_without_a_copy_there_is_the_innermost_frame():
    assert one({"pc": at(LEAF), "words": []}) == ([at(LEAF)], interface.END_CUT, 8)


def test_ends():
    assert one({"pc": at(LEAF), "words": [0]})[:2] == ([at(LEAF)], interface.END_COMPLETE)
    assert one({"pc": at(LEAF), "words": [0x123456]})[:2] == ([at(LEAF)], interface.END_NO_MAP)
    assert one({"pc": at(LEAF), "words": [1 << 63]})[:2] == ([at(LEAF)], interface.END_BAD)
    assert one({"pc": 0x5000, "words": [at(MAIN)]})[:2] == ([0x5000], interface.END_NO_MAP)
    assert one({"pc": 1 << 63, "words": [at(MAIN)]})[:2] == ([], interface.END_BAD)
    below = {"pc": at(WORK), "words": [0] * 9, "fp": STACK - 64}
    assert one(below)[:2] == ([at(WORK)], interface.END_BAD)


def test_no_more_frames_than_asked_for():
    given = samples([{"pc": at(LEAF), "words": [at(LEAF)] * 90}])
    unwound = unwind(given, OneImage(FUNCTIONS), most_frames=50)
    assert unwound.frames().tolist() == [50]
    assert unwound.end.tolist() == [interface.END_DEEP]


def test_many_samples_over_blocks_and_contexts_are_each_as_alone():
    chance = np.random.default_rng(5)
    states = []
    for _ in range(3000):
        depth = int(chance.integers(0, 12))
        words = [at(LEAF)] * depth + [at(MAIN), *FROM_MAIN]
        words = words[: int(chance.integers(1, len(words) + 1))]
        context = int(chance.choice([0, 1, 70_000, 200_000]))
        states.append({"pc": at(LEAF, depth), "words": words, "context": context})
    finder = OneImage(FUNCTIONS)
    unwound = unwind(samples(states, blocks=7), finder)
    found = chains(unwound)
    for row in range(0, len(states), 37):
        chain, end, needed = one(states[row])
        assert found[row] == chain
        assert (unwound.end[row], unwound.needed_bytes[row]) == (end, needed)
    # Each place was asked for once in each context, and what is told of a frame is true of it.
    assert finder.asked < 200
    sites = unwound.sites
    start, site, _ = unwound.chains()
    owner = np.repeat([state["context"] for state in states], np.diff(start))
    assert (sites.context.take(site) == owner).all()
    assert (unwound.outermost == site.take(start[1:] - 1)).all()
    # Neighbours share what they have in common.
    assert len(unwound.stacks) < len(site)


def test_arm64_links_with_signed_addresses():
    signed = 0x0023 << 48
    functions = {
        CODE - 0x1000 + START: rule(rules.KIND_END),
        CODE - 0x1000 + MAIN: rule(rules.KIND_FP, 32, fp=-32, second=-24),
        CODE - 0x1000 + LEAF: rule(rules.KIND_SP),
    }
    words = [STACK + 64, signed | IN_START, 0, 0, 0]
    state = {"pc": at(LEAF), "fp": STACK, "words": words, 30: at(MAIN)}
    given = samples([state], machine=elf_layout.EM_AARCH64, registers=[30])
    unwound = unwind(given, OneImage(functions))
    assert chains(unwound) == [[at(LEAF), at(MAIN), IN_START]]
    assert unwound.end.tolist() == [interface.END_COMPLETE]


def test_arm64_a_caller_that_saved_no_link_ends_the_chain():
    functions = {CODE - 0x1000 + LEAF: rule(rules.KIND_SP)}
    given = samples(
        [{"pc": at(LEAF), "words": [0], 30: at(LEAF, 8)}],
        machine=elf_layout.EM_AARCH64,
        registers=[30],
    )
    unwound = unwind(given, OneImage(functions))
    assert chains(unwound) == [[at(LEAF), at(LEAF, 8)]]
    assert unwound.end.tolist() == [interface.END_BAD]


def test_other_machines_are_refused():
    with pytest.raises(ProspectError, match="x86-64 and arm64"):
        unwind(samples([], machine=elf_layout.EM_RISCV), OneImage(FUNCTIONS))


def test_no_samples():
    unwound = unwind(samples([]), OneImage(FUNCTIONS))
    assert (len(unwound), len(unwound.stacks), len(unwound.sites)) == (0, 0, 0)


# HotSpot's interpreter, and the bytecode of two methods.
INTERPRETER, BYTECODE = 0x900, 0xA00
OF_JVM = {
    CODE - 0x1000 + START: rule(rules.KIND_END),
    CODE - 0x1000 + MAIN: rule(rules.KIND_SP, 32, fp=-16),
    CODE - 0x1000 + INTERPRETER: rules.INTERPRETED,
    CODE - 0x1000 + BYTECODE: rules.BYTECODE,
}
R13 = 13


def interpreted(at_bytecode, caller_fp, caller, sender):
    """Lay out an interpreted frame: the bytecode's address, 7 words up to the frame register."""
    return [0, at_bytecode, 0, 0, 0, 0, 0, 0, sender, caller_fp, caller]


def test_interpreted_frames_are_in_their_bytecode():
    # bytecode + 3 ← bytecode + 7 ← main, whose frame begins 2 words above the record
    second = STACK + 8 * (9 + 11)
    words = interpreted(0, second, at(INTERPRETER), 0)
    words += interpreted(at(BYTECODE, 7), 5, at(MAIN), second + 8 * 4)
    words += [0x11, 0x22, 1, 2, 3, IN_START, 0, 0]
    state = {"pc": at(INTERPRETER), "words": words, "fp": STACK + 8 * 9, R13: at(BYTECODE, 3)}
    unwound = unwind(samples([state], registers=(R13,)), OneImage(OF_JVM))
    assert chains(unwound)[0] == [at(BYTECODE, 3), at(BYTECODE, 7) + 1, at(MAIN), IN_START]
    assert unwound.end.tolist() == [interface.END_COMPLETE]


def test_interpreted_frames_of_unknown_methods_are_the_interpreters():
    words = [*interpreted(4660, 0, at(MAIN), 0), 1, 2, 3, IN_START, 0, 0]
    state = {"pc": at(INTERPRETER), "words": words, "fp": STACK + 8 * 9}
    assert chains(unwind(samples([state]), OneImage(OF_JVM)))[0] == [
        at(INTERPRETER),
        at(MAIN),
        IN_START,
    ]
