"""Keep the memory of freed arrays at hand. Nothing here computes anything: without this file all results are the same.

Linux gives a program memory page by page: the first touch of each 4 KiB page is a *page fault*, which costs more than
computing with the 1024 floats in it. The C library (glibc) returns freed memory to the system early: an array above
128 KiB at once; later, as its thresholds adapt, as soon as twice the largest array lies free. A training step makes
and drops many arrays, the same ones each time, and would fault in all their pages anew each time. In the benchmark
that is half of the time at (64, 16, 64, 4, 32).

`keep_freed_memory` asks glibc to take arrays below 32 MiB from its heap, and to keep what is freed there for the next
ones. At each full pass of Python's garbage collector (`gc.collect()` is one), all that lies free is given back, but for
64 MiB. It runs on import. It leaves alone: other systems and C libraries, arrays of 32 MiB and more, and whoever set
glibc's own variables MALLOC_... or GLIBC_TUNABLES. To switch it off, set MINIGRAD_KEEP_MIB=0 before the import (or
another number of MiB), or call `keep_freed_memory(0)` after it.
"""

import ctypes
import gc
import os
from typing import Any

MIB = 2**20
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h; see mallopt(3) and malloc_trim(3)

_kept = 0  # bytes


def keep_freed_memory(mib: int) -> bool:
    """Keep up to so many MiB of freed memory; 0: as little as glibc does by itself. False where there is no glibc to ask."""
    global _kept
    try:
        libc = ctypes.CDLL(None)
        ask, give_back = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    _kept = mib * MIB
    largest, kept, ahead = (32 * MIB, _kept, MIB) if mib else (128 * 2**10,) * 3  # glibc's own: 128 KiB each
    taken = [ask(M_MMAP_THRESHOLD, largest), ask(M_TRIM_THRESHOLD, kept), ask(M_TOP_PAD, ahead)]
    give_back(kept)
    if _give_back not in gc.callbacks:
        gc.callbacks.append(_give_back)
    return all(taken)


def _give_back(phase: str, info: dict[str, Any]) -> None:
    # Alone, glibc gives back only the end of its heap, and a small object may stay there for long
    if _kept and phase == "stop" and info["generation"] == 2:
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(_kept))


if not any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
    wanted = os.environ.get("MINIGRAD_KEEP_MIB", "64")
    if not wanted.isdecimal():
        raise ValueError(f"MINIGRAD_KEEP_MIB must be a number of MiB, 0 or more, got {wanted!r}")
    keep_freed_memory(int(wanted))
