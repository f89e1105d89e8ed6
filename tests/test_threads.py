"""Threads: each trains its own model as if it were alone. What they share is the random generator."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import soak

import minigrad
from minigrad import tensor


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """The results of jobs that run at once, one thread each, from a common start."""
    start, results = threading.Barrier(len(jobs)), [None] * len(jobs)

    def run(i: int) -> None:
        start.wait()
        results[i] = jobs[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    """Threads take turns every 10 microseconds, not every 5 milliseconds: what can go wrong will."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def trained(training: soak.Training, steps: int = 30) -> list[Any]:
    for _ in range(steps):
        training.step()
    return training.numbers()


def test_two_threads_train_two_models_to_the_same_bits_as_each_alone() -> None:
    alone = [trained(soak.Training(seed)) for seed in (0, 1)]
    assert alone[0] != alone[1]
    trainings = [soak.Training(seed) for seed in (0, 1)]
    assert together(*[lambda t=t: trained(t) for t in trainings]) == alone


def test_one_set_of_weights_may_be_read_by_all() -> None:
    training = soak.Training()
    ids = minigrad.arange(11).reshape(1, 11)
    with minigrad.no_grad():
        expected = training.model(ids).tolist()

    def read() -> Any:
        with minigrad.no_grad():
            return [training.model(ids).tolist() for _ in range(20)]

    for found in together(read, read, read):
        assert found == [expected] * 20


def test_no_grad_in_one_thread_leaves_recording_on_in_the_other() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    inside, done = threading.Event(), threading.Event()

    def without() -> bool:
        with minigrad.no_grad():
            inside.set()
            done.wait(10)
            return (x * 2).requires_grad

    def recorded() -> bool:
        inside.wait(10)
        y = x * 2
        y.sum().backward()
        done.set()
        return y.requires_grad

    assert together(without, recorded) == [False, True]
    assert x.grad.tolist() == [2, 2]


def test_a_thread_starts_recording_even_if_it_was_started_under_no_grad() -> None:
    with minigrad.no_grad():
        assert together(soak.recording) == [True]
        assert not soak.recording()


def test_threads_that_switch_back_and_forth_do_not_disturb_each_other() -> None:
    def off() -> bool:
        for _ in range(300):
            with minigrad.no_grad():
                if soak.recording():
                    return False
        return True

    def on() -> bool:
        return all(soak.recording() for _ in range(300))

    assert together(off, on, off, on) == [True] * 4


def test_numpys_error_handling_is_each_threads_own() -> None:
    def strict() -> Any:
        with np.errstate(all="raise"):
            return [tensor([0.0]).log().item() for _ in range(50)]

    def plain() -> Any:
        return [tensor([0.0]).log().item() for _ in range(50)]

    assert together(strict, plain) == [[-np.inf] * 50] * 2


def test_the_shared_generator_gives_each_number_to_one_thread_only() -> None:
    minigrad.manual_seed(0)
    expected = minigrad.rand(1000, dtype=minigrad.float64).tolist()
    minigrad.manual_seed(0)

    def draw() -> list[float]:
        return [minigrad.rand(1, dtype=minigrad.float64).item() for _ in range(250)]

    drawn = together(draw, draw, draw, draw)  # who gets which is chance
    assert sorted(x for numbers in drawn for x in numbers) == sorted(expected)


def test_all_random_functions_at_once() -> None:
    def draw() -> bool:
        for _ in range(20):
            minigrad.manual_seed(0)
            shapes = [minigrad.rand(3).shape, minigrad.randn(3).shape, minigrad.randint(0, 5, (3,)).shape, minigrad.randperm(3).shape]
            minigrad.set_rng_state(minigrad.get_rng_state())
            if {*shapes, minigrad.multinomial(minigrad.ones(5), 3).shape} != {(3,)}:
                return False
        return True

    assert together(draw, draw, draw) == [True] * 3
