"""Every claim of every lesson with seeds 0 to 19, and the worst figures, which the tour's table "Over twenty seeds" shows.

Only with --all-seeds; `pytest tests/test_twenty_seeds.py --all-seeds -s -k 03` runs one lesson and prints its rows of the table.
"""

import contextlib
import importlib
import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SEEDS = range(20)


class Headline(NamedTuple):
    name: str
    claim: str  # as the lesson checks it
    of: Callable[[dict], float]  # from the result of the lesson's run()
    worst: Callable[[Sequence[float]], float]  # of the twenty
    format: str = ".3f"


def from_half(values: Sequence[float]) -> float:
    return max(values, key=lambda v: abs(v - 0.5))


def from_one(values: Sequence[float]) -> float:
    return max(values, key=lambda v: abs(math.log(v)))


def per_step(r: dict, name: str) -> float:
    return importlib.import_module("03_bottleneck").per_step(r["curves"][name])


def job(r: dict, number: int) -> dict:
    return list(r["jobs"].values())[number]


def near_difference(r: dict) -> float:
    return max(abs(moved / gradient - 1) for _, _, _, gradient, moved in r["expression"])


HEADLINES = {
    "01_chain_rule": [
        Headline("`backward()` against moving the input a little, relative difference", "≤ 1e-6", near_difference, max, ".0e")
    ],
    "02_which_word": [
        Headline("attention, opposite senses: right", "≥ 0.97", lambda r: r["attention"]["acc"], min),
        Headline("no attention, opposite senses: right", "0.42 to 0.58", lambda r: r["no attention"]["acc"], from_half),
        Headline("bag of words, opposite senses: right", "0.42 to 0.58", lambda r: r["bag of words"]["acc"], from_half),
        Headline("largest weight of 苹果 is on its cue", "≥ 0.70", lambda r: r["attention"]["argmax"], min),
        Headline("causal mask, cue before 苹果: right", "≥ 0.97", lambda r: r["causal mask"]["before"], min),
        Headline("causal mask, cue after 苹果: right", "0.40 to 0.60", lambda r: r["causal mask"]["after"], from_half),
    ],
    "03_bottleneck": [
        Headline("RNN, gain 1: gradient per step of distance", "< 0.741", lambda r: per_step(r, "RNN, gain 1"), max),
        Headline("RNN, gain 3: gradient per step of distance", "> 1", lambda r: per_step(r, "RNN, gain 3"), min),
        Headline("attention: gradient per step of distance", "0.980 to 1.020", lambda r: per_step(r, "attention"), from_one),
        Headline("first of 5 tokens, RNN: right", "≥ 0.95", lambda r: r["recall"][5]["RNN"], min),
        Headline("first of 20 tokens, RNN: right (a guess: 0.125)", "≤ 0.25", lambda r: r["recall"][20]["RNN"], max),
        Headline("first of 80 tokens, RNN: right (a guess: 0.125)", "≤ 0.25", lambda r: r["recall"][80]["RNN"], max),
        Headline("first of 80 tokens, attention: right", "≥ 0.98", lambda r: r["recall"][80]["attention"], min),
        Headline("first of 80 tokens, attention: weight on it", "> 0.5", lambda r: r["recall"][80]["weight"], min),
    ],
    "04_sqrt_d": [
        Headline("d = 1024, not divided: live scores", "< 0.15", lambda r: r["statistics"][1024]["raw"]["live scores"], max),
        Headline("any d, divided: live scores", "> 0.90", lambda r: min(x["scaled"]["live scores"] for x in r["statistics"].values()), min),
        Headline("reverse, divided: sequences right", "≥ 0.98", lambda r: r["scaled"][1], min),
        Headline("reverse, not divided: sequences right", "≤ 0.30", lambda r: r["raw"][1], max),
    ],
    "05_causal_mask": [
        Headline("mask: loss (floor 0.813)", "0.783 to 0.873", lambda r: r["mask"]["loss"], max),
        Headline("no mask: loss", "< 0.3", lambda r: r["no mask"]["loss"], max),
        Headline("mask: legal letters written", "≥ 0.97", lambda r: r["mask"]["legal"], min),
        Headline("no mask: legal letters written (blindly: 0.167)", "≤ 0.65", lambda r: r["no mask"]["legal"], max),
        Headline("mask: leak", "0", lambda r: r["mask"]["leak"], max),
    ],
    "06_heads": [
        Headline("XOR, one head: right", "≤ 0.75", lambda r: r["xor"][1]["acc"], max),
        Headline("XOR, one head: lowest loss", "≥ 0.3466", lambda r: r["xor"][1]["loss"], min, ".4f"),
        Headline("XOR, two heads: right", "1", lambda r: r["xor"][2]["acc"], min),
        Headline("XOR, two heads: lowest loss", "< 0.05", lambda r: r["xor"][2]["loss"], max, ".4f"),
        Headline("two jobs, one head: both right", "≤ 0.85", lambda r: job(r, 0)["acc"], max),
        Headline("two jobs, two heads: both right", "≥ 0.98", lambda r: job(r, 1)["acc"], min),
        Headline("two jobs, two heads: weight of each on its token", "> 0.9", lambda r: min(job(r, 1)["on"].values()), min),
        Headline("10 kinds of token, one head: both right", "≥ 0.85", lambda r: job(r, 2)["acc"], min),
    ],
    "07_projections": [
        Headline("reverse, all separate: right", "≥ 0.99", lambda r: r["models"]["reverse", "all separate"]["acc"], min),
        Headline("rotate, all separate: right", "≥ 0.99", lambda r: r["models"]["rotate", "all separate"]["acc"], min),
        Headline("reverse, W_q = W_k: right", "≤ 0.65", lambda r: r["models"]["reverse", "W_q = W_k"]["acc"], max),
        Headline("rotate, W_q = W_k: right", "≤ 0.65", lambda r: r["models"]["rotate", "W_q = W_k"]["acc"], max),
        Headline("reverse, W_k = W_v: right", "≥ 0.99", lambda r: r["models"]["reverse", "W_k = W_v"]["acc"], min),
        Headline("reverse, Q = K = V = x: right", "≤ 0.30", lambda r: r["models"]["reverse", "Q = K = V = x"]["acc"], max),
    ],
    "08_positions": [
        Headline("no positions: difference from the shuffled outputs", "< 1e-12", lambda r: r["none"]["gap"], max, ".0e"),
        Headline("no positions: sequences reversed", "≤ 0.01", lambda r: r["none"]["exact"], max),
        Headline("learned positions: sequences reversed", "≥ 0.99", lambda r: r["learned"]["exact"], min),
        Headline("sinusoids: sequences reversed", "≥ 0.99", lambda r: r["sinusoidal"]["exact"], min),
        Headline("learned positions: weight on the mirrored place", "≥ 0.8", lambda r: r["learned"]["mirror"], min),
    ],
    "09_depth": [
        Headline("two blocks: right", "≥ 0.98", lambda r: r[2, 1]["acc"], min),
        Headline("one block, one head or four: right", "≤ 0.75", lambda r: max(r[1, 1]["acc"], r[1, 4]["acc"]), max),
    ],
    "10_thinking": [
        Headline("one token: distance from linear", "< 1e-12", lambda r: r["linear"][1][0], max, ".0e"),
        Headline("attention: right", "≤ 0.70", lambda r: r["models"]["attention"]["acc"], max),
        Headline("attention + SwiGLU: right", "≥ 0.90", lambda r: r["models"]["attention + SwiGLU"]["acc"], min),
    ],
}


def measure(name: str, seed: int) -> tuple[list[str], list[float]]:
    """One lesson with one seed: the claims that failed, and its headline numbers."""
    sys.path.insert(0, str(EXAMPLES / "lessons"))
    lesson = importlib.import_module(name)
    run, shown = lesson.run, io.StringIO()
    result = run(seed)
    lesson.run = lambda *args: result  # so that main() checks its claims on these numbers
    try:
        with contextlib.redirect_stdout(shown):
            code = lesson.main(["--seed", str(seed)])
    finally:
        lesson.run = run
    failed = [line.strip() for line in shown.getvalue().splitlines() if "[FAILED]" in line]
    assert code == bool(failed)
    return failed, [float(headline.of(result)) for headline in HEADLINES[name]]


def rows(file: Path, name: str) -> list[float]:
    """The worst figures of one lesson, as the table in the tour has them."""
    found = re.findall(rf"^\| {int(name[:2])} \| [^|]+ \| [^|]+ \| ([\d.e-]+) \|$", file.read_text(encoding="utf-8"), re.M)
    return list(map(float, found))


@pytest.mark.parametrize("name", HEADLINES)
def test_twenty_seeds(name, request, monkeypatch):
    if not request.config.getoption("--all-seeds"):
        pytest.skip("needs --all-seeds")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(2, get_context("spawn"), os.nice, (10,)) as pool:
        found = list(pool.map(measure, [name] * len(SEEDS), SEEDS))
    worst = [f"{h.worst(values):{h.format}}" for h, values in zip(HEADLINES[name], zip(*(v for _, v in found), strict=True), strict=True)]
    print()
    for h, value in zip(HEADLINES[name], worst, strict=True):
        print(f"| {int(name[:2])} | {h.name} | {h.claim} | {value} |", flush=True)
    assert not {seed: failed for seed, (failed, _) in zip(SEEDS, found, strict=True) if failed}
    for file in sorted(EXAMPLES.glob("README*.md")):  # in the tour, in every language
        assert rows(file, name) == pytest.approx(list(map(float, worst)), rel=0.05, abs=0.03), file.name


def test_every_lesson_has_headlines():
    assert list(HEADLINES) == sorted(file.stem for file in (EXAMPLES / "lessons").glob("[0-9][0-9]_*.py"))


def test_the_tour_has_a_row_for_every_headline():
    for file in EXAMPLES.glob("README*.md"):
        assert {name: len(rows(file, name)) for name in HEADLINES} == {name: len(h) for name, h in HEADLINES.items()}, file.name
