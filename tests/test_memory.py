"""Memory, depth and interruptions: nothing stays behind, and nothing is ever half done. Longer runs: `python tests/soak.py`."""

import gc
import os
import platform
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak
import test_dialect
import test_edges
import test_functional

import minigrad
from minigrad import Tensor, tensor

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", autouse=True)
def _only_what_is_new_is_counted() -> Iterator[None]:
    """The thousands of tests that pytest holds would be walked again with each count."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


# Memory -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's count of resident memory")
def test_150_training_steps_leave_nothing_behind() -> None:
    grown, alive = soak.memory(150)
    assert alive == 0
    assert grown < 2 * 2**20  # the graphs of 150 steps would be 15 MiB


@pytest.mark.parametrize(("graph", "n"), [(soak.ladder, 20_000), (soak.fan, 10_000)])
def test_a_large_graph_runs_and_is_freed_by_reference_counts(graph: Callable[[Tensor, int], Tensor], n: int) -> None:
    assert soak.depth(graph, n) == pytest.approx(1)


def test_every_public_call_frees_what_it_made() -> None:
    test_edges.walk()  # fills what is kept on purpose, the causal masks of the fused attention
    with soak.no_collector():
        before = soak.tensors()
        test_edges.walk()
        assert soak.tensors() == before


def test_a_model_its_optimizer_and_its_losses_are_freed() -> None:
    with soak.no_collector():
        before = soak.tensors()
        training = soak.Training()
        training.step()
        saved = training.model.state_dict(), training.optimizer.state_dict()
        training.model.load_state_dict(saved[0])
        training.optimizer.load_state_dict(saved[1])
        losses = [training.loss(), training.loss()]
        losses[0].backward(retain_graph=True)
        watched = weakref.ref(training.model)
        del training, saved, losses
        assert watched() is None
        assert soak.tensors() == before


def refused() -> list[Callable[[], Any]]:
    """Wrong calls: each ends in an exception."""
    calls: list[Callable[[], Any]] = [lambda call=call: call(minigrad) for call, *_ in test_dialect.REFUSED + test_dialect.OURS]
    return calls + [call for call, *_ in test_functional.ERRORS]


def test_an_exception_keeps_nothing_alive() -> None:
    calls = refused()
    assert len(calls) > 80
    with soak.no_collector():
        before = soak.tensors()
        for call in calls:
            with pytest.raises(Exception, match=r"\w"):
                call()
        assert soak.tensors() == before


# Exceptions in the middle -------------------------------------------------------------------------------------


def troubled(x: np.ndarray) -> Any:
    """x, whose gradient function raises."""

    def dx(g: np.ndarray) -> np.ndarray:
        raise ArithmeticError

    return x * 1, dx


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_after_an_exception_all_is_as_before_nothing_is_kept_and_the_next_step_works(where: str) -> None:
    training, undisturbed = soak.Training(), soak.Training()
    for t in (training, undisturbed):
        t.step()
    head = training.model.head
    expected = training.numbers()

    def forward(x: Tensor) -> Tensor:
        y = type(head).forward(head, x)
        if where == "forward":
            raise ArithmeticError
        return minigrad.apply(troubled, y)

    with soak.no_collector():
        alive = soak.tensors()
        head.forward = forward
        with pytest.raises(ArithmeticError):
            training.loss().backward()
        del head.forward
        assert soak.tensors() == alive
    assert training.numbers() == expected
    assert soak.recording()
    for t in (training, undisturbed):
        t.step()
    assert training.numbers() == undisturbed.numbers()


def test_an_optimizer_that_fails_at_the_second_parameter_has_not_moved_the_first() -> None:
    p, q = tensor([1.0], requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    optimizer = minigrad.optim.Adam([p, q])
    (p * 2 + q.sum()).sum().backward()
    q.data = np.ones(3, np.float32)  # no longer the shape of its gradient
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        optimizer.step()
    assert (p.item(), optimizer.state) == (1, {})


# Ctrl-C -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.gettrace() is not None, reason="needs sys.settrace for itself")
@pytest.mark.parametrize("name", [name for name in soak.ACTIONS if name != "forward and backward"])
def test_ctrl_c_at_any_line_leaves_all_as_before_or_as_after(name: str) -> None:
    assert soak.everywhere(name, last=60) > 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_training_goes_on_exactly_after_ctrl_c_at_random_moments() -> None:
    counts = soak.interrupt(50)
    assert counts["before the update"] + counts["after it"] == counts["interrupts"] == 50


# Freed memory is kept (memory.py) ----------------------------------------------------------------------------------

FAULTS = """
import resource, numpy as np, minigrad
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        arrays = [np.ones(2**18, np.float32) for _ in range(8)]  # 8 MiB, 2048 pages
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
LARGE = """
import gc, numpy as np, minigrad
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
before = resident()
arrays = [np.ones(2**18, np.float32) for _ in range(400)]
assert resident() - before > 390  # Linux counts pages a little late
del arrays[:-1]  # the last one stays behind them, at the heap's end
gc.collect()
print(resident() - before)
"""


def answer(program: str, **environment: str) -> int:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "MINIGRAD_"))}
    command = [sys.executable, "-W", "error", "-c", program]
    return int(subprocess.run(command, env=clean | environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


glibc = pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="needs glibc's mallopt")


@glibc
def test_arrays_of_a_step_find_their_pages_again() -> None:
    assert answer(FAULTS) < 1000
    for off in ({"MINIGRAD_KEEP_MEMORY": "0"}, {"MALLOC_TOP_PAD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.check=0"}):
        assert answer(FAULTS, **off) > 10_000


@glibc
def test_they_find_them_after_a_full_collection_too() -> None:
    assert answer(FAULTS.replace("del arrays", "del arrays; __import__('gc').collect()")) < 1000


@glibc
def test_no_more_is_kept_than_was_said() -> None:
    assert answer(LARGE) <= 64 + 8


@pytest.mark.parametrize("missing", ["libc = None", "libc = object()", "import sys; sys.modules['_ctypes'] = None"])
def test_without_glibc_or_ctypes_nothing_happens(missing: str) -> None:
    stand_in = "" if "sys" in missing else "import ctypes; ctypes.CDLL = lambda name: libc\n"
    asked = "import gc, minigrad\nassert not minigrad.memory.keep_freed_memory() and not gc.callbacks\nprint(1)"
    assert answer(f"{missing}\n{stand_in}{asked}") == 1
