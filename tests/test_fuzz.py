"""The fuzzer of fuzz.py, a few hundred programs of it, and proof that it finds planted bugs and shrinks them."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import fuzz
import numpy as np
import pytest

import layers.functional
import minigrad
from minigrad import ops

engine = importlib.import_module("minigrad.tensor")
TORCH = importlib.util.find_spec("torch") is not None


def message(figures: fuzz.Figures) -> str:
    return "\n\n".join(f"program {seed}: {detail}\n{program.script('minigrad')}" for seed, program, detail in figures.failures)


def test_random_programs_give_what_pytorch_gives(torch: Any) -> None:
    figures = fuzz.fuzz([f"0/{i}" for i in range(200)], alone=False)
    assert not figures.failures, message(figures)
    assert figures.steps > 1000
    assert figures.unstable < 5


def test_gradients_of_random_programs_agree_with_central_differences() -> None:
    figures = fuzz.fuzz([f"1/{i}" for i in range(60)], alone=True)
    assert not figures.failures, message(figures)
    assert figures.unstable < 20


def test_random_programs_give_the_same_bits_compiled() -> None:
    figures = fuzz.fuzz([f"5/{i}" for i in range(150)], alone=False, compiled=True)
    assert not figures.failures, message(figures)
    assert figures.unstable < 5  # as good as all of them can be recorded


# What is covered ----------------------------------------------------------------------------------------------

# Randomness, files, tools and dtypes are no steps of a program; of the rest, each name is spelled in some row of the table
ELSEWHERE = [
    "Tensor", "apply", "as_tensor", "bool", "compile", "cuda", "device", "float32", "float64", "from_numpy", "get_rng_state", "gradcheck",
    "inf", "int64", "load", "long", "manual_seed", "multinomial", "nan", "no_grad", "ops", "optim", "pi", "rand", "rand_like",
    "randint", "randn", "randn_like", "randperm", "save", "set_rng_state", "tensor",
]  # fmt: skip


def test_a_few_hundred_programs_hit_every_row_of_the_table() -> None:
    written = [step for i in range(200) for step in fuzz.write(f"0/{i}").steps.values()]
    assert {step.op for step in written} == set(fuzz.OPS)
    spelled = " ".join(step.line("y") for step in written)
    functions = [name for name, f in vars(layers.functional).items() if getattr(f, "__module__", "") == "layers.functional"]
    for room, names in (("torch", [n for n in minigrad.__all__ if n not in ELSEWHERE]), ("F", [n for n in functions if n[0].islower()])):
        assert [name for name in names if f"{room}.{name}(" not in spelled and f".{name}(" not in spelled] == []


def test_programs_are_the_same_in_every_run() -> None:
    first, second = fuzz.write("3/4"), fuzz.write("3/4")
    assert first.lines() == second.lines()
    assert first.lines() != fuzz.write("3/5").lines()


def test_a_program_runs_as_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    program = next(p for p in map(fuzz.write, map(str, range(99))) if len(p.steps) > 4 and any(k[0] == "x" for k in p.leaves))
    for framework in ("minigrad", "torch") if TORCH else ("minigrad",):
        exec(program.script(framework), {})
        assert "y5 " in capsys.readouterr().out


# Planted bugs -------------------------------------------------------------------------------------------------


def overwriting_getitem(x: Any, index: Any) -> Any:
    def dx(g: Any) -> Any:
        out = np.zeros_like(x)
        out[index] = g
        return out

    return x[index], dx


def forgetful_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.asarray(x.sum(axis=axis, keepdims=keepdims)), lambda g: np.ones_like(x)


def transposed_matmul(a: Any, b: Any) -> Any:
    return a @ b, lambda g: g @ b.swapaxes(-1, -2), lambda g: g.swapaxes(-1, -2) @ a  # of the right shape if b is square


def softmax_of_the_wrong_axis(x: Any, axis: int) -> Any:
    return RIGHT["softmax"](x, -1)


def averaged(g: Any, shape: tuple[int, ...]) -> Any:
    summed = RIGHT["unbroadcast"](g, shape)
    return summed * max(summed.size, 1) / max(g.size, 1)


RIGHT = {"softmax": ops.softmax, "unbroadcast": engine.unbroadcast}
PLANTED: list[tuple[Any, str, Callable[..., Any]]] = [
    (ops, "getitem", overwriting_getitem),
    (ops, "sum", forgetful_sum),
    (ops, "matmul", transposed_matmul),
    (engine, "unbroadcast", averaged),
    (ops, "softmax", softmax_of_the_wrong_axis),  # its gradient fits it: only PyTorch can tell
]
JUDGED = [(*plant, alone) for plant in PLANTED for alone in (True, False) if not (alone and plant[1] == "softmax")]


@pytest.mark.parametrize(("room", "name", "wrong", "alone"), JUDGED, ids=[f"{p[1]}-{'differences' if p[3] else 'pytorch'}" for p in JUDGED])
def test_a_planted_bug_is_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch, room: Any, name: str, wrong: Callable[..., Any], alone: bool
) -> None:
    if not alone and not TORCH:
        pytest.skip("PyTorch isn't installed")
    monkeypatch.setattr(room, name, wrong)
    found = next(f for f in (fuzz.fuzz([f"2/{i}"], alone) for i in range(300)) if f.failures)
    _, program, _ = found.failures[0]
    assert len(program.steps) == 1
    assert len(program.leaves) <= 3
    assert sum(a.size for a in program.leaves.values()) <= 12
    monkeypatch.undo()
    repaired = fuzz.against_differences(program)
    assert not repaired or repaired.kind == "unstable"  # at a kink


def test_the_command_reports_a_planted_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--n", "7", "--alone"])
    assert fuzz.main() == 0
    monkeypatch.setattr(ops, "mul", lambda a, b: (a * b, lambda g: g * b, lambda g: g))
    assert fuzz.main() == 1
    printed = capsys.readouterr().out
    assert "0 failures" in printed
    assert "import numpy as np, minigrad as torch, layers.functional as F" in printed
