"""Seeds: the same seed gives the same bits, in every run, thread and process; and nobody else's generator is touched."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak
import test_edges
from test_threads import together

import layers as nn
import layers.functional as F
import minigrad
from minigrad import tensor


def test_the_same_bits_in_every_run_thread_and_process_whatever_python_hashes(tmp_path: Path) -> None:
    expected = soak.fingerprint(tmp_path)
    assert soak.fingerprint(tmp_path) == expected
    assert together(lambda: soak.fingerprint(tmp_path)) == [expected]
    program = "import sys, pathlib, soak; print(soak.fingerprint(pathlib.Path(sys.argv[1])))"
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    runs = []
    for seed in ("0", "4242"):
        (tmp_path / seed).mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", program, tmp_path / seed]
        runs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    assert [run.communicate(timeout=60)[0].strip() for run in runs] == [expected] * 2


def foreign_generators() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()
    return name, keys.tolist(), rest, random.getstate()


def test_no_generator_but_our_own_is_touched(tmp_path: Path) -> None:
    np.random.seed(1)
    random.seed(1)
    before = foreign_generators()
    test_edges.walk()
    soak.fingerprint(tmp_path)
    minigrad.load(tmp_path / "all")
    for name in ("normal_", "uniform_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"):
        getattr(nn.init, name)(minigrad.zeros(3, 5))
    minigrad.gradcheck(lambda x: x * x, tensor(np.ones(3), requires_grad=True))
    minigrad.set_rng_state(minigrad.get_rng_state())
    assert foreign_generators() == before
    minigrad.rand(1)
    np.random.seed(2)
    random.seed(2)
    minigrad.manual_seed(0)
    assert minigrad.randint(0, 100, (3,)).tolist() == [44, 47, 64]  # and theirs don't touch ours


FOUR = [0.1, 0.2, 0.3, 0.4]
FIRST: list[tuple[Any, list[Any]]] = [  # after manual_seed(0), for ever
    (lambda: minigrad.rand(4), [0.5488134622573853, 0.7151893377304077, 0.6027633547782898, 0.544883131980896]),
    (lambda: minigrad.rand(2, dtype=minigrad.float64), [0.5488135039273248, 0.7151893663724195]),
    (lambda: minigrad.randn(4), [1.764052391052246, 0.40015721321105957, 0.978738009929657, 2.2408931255340576]),
    (lambda: minigrad.randint(0, 100, (10,)), [44, 47, 64, 67, 67, 9, 83, 21, 36, 87]),
    (lambda: minigrad.randperm(10), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]),
    (lambda: minigrad.multinomial(tensor(FOUR), 8, replacement=True), [2, 3, 3, 2, 2, 3, 2, 3]),
    (lambda: minigrad.multinomial(tensor([5.0, 1.0, 2.0, 1.0, 0.0]), 4), [0, 2, 3, 1]),
    (lambda: F.dropout(minigrad.ones(8)), [2, 2, 2, 2, 0, 2, 0, 2]),
    (lambda: nn.Linear(2, 2).weight, [[0.06903266906738281, 0.3043237328529358], [0.14532935619354248, 0.06347435712814331]]),
]


@pytest.mark.parametrize(("draw", "numbers"), FIRST)
def test_the_first_numbers_of_seed_0(draw: Any, numbers: list[Any]) -> None:
    minigrad.manual_seed(0)
    assert draw().tolist() == numbers


def test_the_state_brings_all_that_follows() -> None:
    minigrad.manual_seed(7)
    minigrad.randn(3)  # normals come in pairs: one waits
    state = minigrad.get_rng_state()
    first = [draw().tolist() for draw, _ in FIRST]
    assert [draw().tolist() for draw, _ in FIRST] != first
    minigrad.set_rng_state(state)
    assert [draw().tolist() for draw, _ in FIRST] == first
