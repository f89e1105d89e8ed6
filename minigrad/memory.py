"""Keep the memory of freed arrays at hand. Nothing here computes anything: without this file all results are the same.

Linux gives a program memory page by page: the first touch of each 4 KiB page is a *page fault*, which costs more than
computing with the 1024 floats in it. The C library (glibc) returns freed memory to the system early: arrays above
128 KiB at once, and the end of its heap as soon as 128 KiB lie free there. A training step makes and drops many arrays,
the same ones each time, and would fault in their pages anew each time. In the benchmark that is a third of the time at
(64, 16, 64, 4, 32).

These thresholds rise by themselves when large arrays are freed, to 32 MiB and 64 MiB at most. `keep_freed_memory` sets
them there from the start: arrays below 32 MiB come from the heap, and at its end up to 64 MiB are kept. What lies free
further inside is returned at each full pass of Python's garbage collector (`gc.collect()` is one); glibc alone would
hold it. This runs on import. It leaves alone: other C libraries and systems, larger arrays, and whoever set glibc's own
variables MALLOC_... or GLIBC_TUNABLES. To switch it off, set MINIGRAD_KEEP_MEMORY=0 before the import.
"""

import gc
import os
from typing import Any

MIB = 2**20
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h; see mallopt(3) and malloc_trim(3)


def keep_freed_memory() -> bool:
    """Do what is described above, for the rest of the process. False where there is no glibc to ask."""
    try:
        import ctypes  # some builds of Python have none

        libc = ctypes.CDLL(None)
        ask, trim = libc.mallopt, libc.malloc_trim
    except (ImportError, AttributeError, OSError, TypeError):
        return False

    def give_back(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            trim(ctypes.c_size_t(64 * MIB))

    gc.callbacks.append(give_back)
    return all([ask(M_MMAP_THRESHOLD, 32 * MIB), ask(M_TRIM_THRESHOLD, 64 * MIB), ask(M_TOP_PAD, MIB)])  # the heap grows by 1 MiB more


if os.environ.get("MINIGRAD_KEEP_MEMORY") != "0" and not any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
    keep_freed_memory()
