"""Keep the memory of freed arrays at hand. Nothing here computes anything: without this file all results are the same.

Linux gives a program memory page by page: the first touch of each 4 KiB page is a *page fault*, which costs more than
computing with the 1024 floats in it. The C library (glibc) returns what an array above 128 KiB held to the system as
soon as the array dies, so a training step, which makes and drops the same arrays each time, faults all its pages in
anew each time. In the benchmark that is half of the time at (64, 16, 64, 4, 32).

`keep_freed_memory` asks glibc to take arrays below 32 MiB from its heap, and to keep up to so many MiB of free memory
at the heap's end; that much stays with the process, and goes into the next arrays. It runs on import, with 64 MiB. It
leaves alone: other systems and C libraries, arrays of 32 MiB and more, and whoever set glibc's own variables MALLOC_...
or GLIBC_TUNABLES. To switch it off, set MINIGRAD_KEEP_MIB=0 before the import, or call `keep_freed_memory(0)` after it.
"""

import ctypes
import os

MIB = 2**20
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h; see mallopt(3)


def keep_freed_memory(mib: int) -> bool:
    """Keep up to so many MiB of freed memory; 0: as little as glibc does by itself. False where there is no glibc to ask."""
    try:
        libc = ctypes.CDLL(None)
        ask, give_back = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    largest, kept, ahead = (32 * MIB, mib * MIB, MIB) if mib > 0 else (128 * 2**10,) * 3  # glibc's own: 128 KiB each
    taken = [ask(M_MMAP_THRESHOLD, largest), ask(M_TRIM_THRESHOLD, kept), ask(M_TOP_PAD, ahead)]
    give_back(kept)
    return all(taken)


if not any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
    keep_freed_memory(int(os.environ.get("MINIGRAD_KEEP_MIB", "64")))
