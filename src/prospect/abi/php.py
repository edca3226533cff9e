"""PHP's structures as data: the offsets of the fields that lead from a request to its frames.

For 64-bit builds. `capture.runtimes.php_runtime` reads offsets that differ between versions from
PHP's own code.

Source: ``Zend/zend_compile.h``, ``Zend/zend_types.h`` and ``Zend/zend.h`` of PHP 7.4 to 8.4.
"""

from __future__ import annotations

# zend_execute_data: instruction, function, flags of the call, caller.
OPLINE, FUNCTION, CALL_INFO, CALLER = 0, 24, 40, 48
FRAME_BYTES = 56
# A call that began a run of the evaluation loop.
CALL_TOP_SHIFT = 17
# zend_op: its line.
OP_LINE = 24
# zend_function: its kind, its flags (32 bits; CLOSURE marks a closure), name, class. A function in
# PHP has the file at an offset that differs, then the first and the last line, 32 bits each.
KIND_INTERNAL, KIND_USER, KIND_EVAL = 1, 2, 4
FLAGS, NAME, SCOPE = 4, 8, 16
CLOSURE = 1 << 22
LINES_AFTER_FILE = 8
# zend_class_entry: its name.
CLASS_NAME = 8
# zend_string.
STRING_LENGTH, STRING_TEXT = 16, 24
