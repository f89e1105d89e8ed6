"""Each lesson with one fixed seed and fewer steps than it takes by itself; what is a theorem in it, tested as one.

To add a lesson: a line in LESSONS with the options of its run(), what must hold of the numbers, and a change of these
numbers under which its claim fails. If it trains for more than two seconds, a line in SLOW too: it is then trained only with
--all-lessons, and in every run it takes two steps and must say that it has learned nothing.
"""

import importlib
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

import layers as nn
import layers.functional as F
import minigrad

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "lessons"


@pytest.fixture(scope="module", autouse=True)
def _lessons_on_the_path():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


class Lesson(NamedTuple):
    options: dict
    holds: Callable[[dict], None]
    spoil: Callable[[dict], object]


def chain_rule(r):
    for _, _, by_hand, grad, moved in r["expression"]:
        assert grad == by_hand == pytest.approx(moved, rel=1e-6)
    x, paths, grad, moved = r["diamond"]
    assert grad == sum(paths.values()) == 9 * x**2 == pytest.approx(moved, rel=1e-6)
    arriving, grad, moved = r["bias"]
    np.testing.assert_array_equal(grad, arriving.sum(0))
    np.testing.assert_allclose(moved, grad, rtol=1e-6)


def which_word(r):
    assert r["attention"]["acc"] >= 0.97
    assert r["attention"]["argmax"] >= 0.75
    assert abs(r["no attention"]["acc"] - 0.5) < 0.08
    assert abs(r["bag of words"]["acc"] - 0.5) < 0.08 < r["bag of words"]["mixed"] - 0.6
    assert r["causal mask"]["before"] >= 0.97
    assert abs(r["causal mask"]["after"] - 0.5) < 0.1
    assert [p.argmax() for _, p, _ in r["attention"]["examples"]] == [0, 1]


def bottleneck(r):
    slope = {name: np.polyfit(np.arange(1, 100), np.log(g[1:]), 1)[0] for name, g in r["curves"].items()}
    assert slope["RNN, gain 1"] < -0.3
    assert slope["RNN, W_h orthogonal"] < -0.3
    assert slope["RNN, gain 3"] > 0
    assert abs(slope["attention"]) < 0.02
    assert r["curves"]["RNN, gain 1"][99] < 1e-15 < 1e-3 < r["curves"]["attention"][99]
    assert r["recall"][5]["RNN"] >= 0.95
    assert r["recall"][20]["RNN"] <= 0.25
    assert r["recall"][20]["attention"] >= 0.98
    assert r["recall"][20]["weight"] > 0.5


def sqrt_d(r):
    for d, x in r["statistics"].items():
        assert x["raw"]["std of scores"] == pytest.approx(math.sqrt(d), rel=0.05)
        assert x["scaled"]["std of scores"] == pytest.approx(1, rel=0.05)
        assert x["scaled"]["live scores"] > 0.9
    raw = r["statistics"][256]["raw"]
    assert raw["live scores"] < 0.15
    assert raw["mean |dq|"] > 3 * r["statistics"][256]["scaled"]["mean |dq|"] > 10 * raw["median |dq|"]
    assert r["scaled"][1] >= 0.98
    assert r["raw"][1] <= 0.3
    assert r["raw"][0][-1] > 0.3


def causal_mask(r):
    floor = (math.log(12) + 14 * math.log(2)) / 15
    assert floor - 0.03 < r["mask"]["loss"] < floor + 0.06
    assert r["no mask"]["loss"] < 0.3
    assert r["mask"]["legal"] >= 0.97
    assert r["no mask"]["legal"] <= 0.65
    assert r["mask"]["leak"] == 0 < r["no mask"]["leak"]
    assert r["mask"]["to previous"] > 0.9 < r["no mask"]["to next"]


def heads(r):
    assert r["xor"][1]["acc"] <= 0.75
    assert r["xor"][1]["loss"] >= math.log(2) / 2 - 1e-6
    for h in (2, 4):
        assert r["xor"][h]["acc"] == 1
        assert r["xor"][h]["loss"] < 0.05
    assert len({x["parameters"] for x in r["xor"].values()}) == 1
    assert max(r["violations"][1]) < 1e-9 < 0.01 < np.median(r["violations"][2])
    one, two, few = r["jobs"].values()
    assert two["acc"] >= 0.98 > 0.85 >= one["acc"]
    assert few["acc"] >= 0.85
    assert min(two["on"].values()) > 0.9
    assert len(set(two["best"].values())) == 2
    for h, parameters, work, weights in r["cost"]:
        assert (parameters, work, weights) == (4 * 24**2, 2 * 10**2 * 24, h * 10**2)


def projections(r):
    for task in ("reverse", "rotate"):
        assert r["models"][task, "all separate"]["acc"] >= 0.99
        assert r["models"][task, "W_k = W_v"]["acc"] >= 0.99
        assert r["models"][task, "Q = K = V = x"]["acc"] <= 0.3
        assert r["models"][task, "W_q = W_k"]["acc"] <= 0.65
        assert abs(r["models"][task, "W_q = W_k"]["acc"] - r["one answer"][task]) < 0.1
        assert r["models"][task, "W_q = W_k"]["asymmetry"] < 1e-12
        assert r["models"][task, "W_q = W_k"]["agree"] == 0
    crossed = r["models"]["reverse", "W_q = W_k"]  # the X
    assert crossed["self"] == pytest.approx(crossed["source"], abs=0.05) == pytest.approx(0.5, abs=0.05)


def positions(r):
    assert r["none"]["gap"] < 1e-12 < 0.1 < min(r["learned"]["gap"], r["sinusoidal"]["gap"])
    assert r["none"]["exact"] <= 0.01
    assert r["learned"]["exact"] >= 0.99 <= r["sinusoidal"]["exact"]
    assert r["learned"]["mirror"] >= 0.8
    digits, answers = r["none"]["example"]
    assert len(set(zip(digits, answers, strict=True))) == len(set(digits))  # the same digit, the same answer


def depth(r):
    assert r[2, 1]["acc"] >= 0.98
    assert max(r[1, 1]["acc"], r[1, 4]["acc"]) <= 0.75


def thinking(r):
    assert r["linear"][1][0] < 1e-12 < 0.1 < r["linear"][2][0]
    assert r["models"]["attention"]["acc"] <= 0.7
    assert r["models"]["attention + SwiGLU"]["acc"] >= 0.9


LESSONS = {
    "01_chain_rule": Lesson({}, chain_rule, lambda r: r["stack"][3].__setitem__(2, (7.0, 6))),
    "02_which_word": Lesson({"steps": 130}, which_word, lambda r: r["attention"].update(acc=0.9)),
    "03_bottleneck": Lesson({"steps": 120, "lengths": (5, 20)}, bottleneck, lambda r: r["recall"][20].update(RNN=0.9)),
    "04_sqrt_d": Lesson({"steps": 24, "sizes": (4, 256, 576)}, sqrt_d, lambda r: r.update(raw=r["scaled"])),
    "05_causal_mask": Lesson({"steps": 250}, causal_mask, lambda r: r["mask"].update(leak=1e-3)),
    "06_heads": Lesson({"xor_steps": 250, "job_steps": 175}, heads, lambda r: r["xor"][1].update(loss=0.34)),
    "07_projections": Lesson({"steps": 120}, projections, lambda r: r["models"]["rotate", "W_q = W_k"].update(agree=0.1)),
    "08_positions": Lesson({"steps": 300}, positions, lambda r: r["none"].update(gap=1e-3)),
    "09_depth": Lesson({"steps": 300}, depth, lambda r: r[1, 4].update(acc=0.8)),
    "10_thinking": Lesson({"steps": 200}, thinking, lambda r: r["models"]["attention"].update(acc=0.8)),
}
SLOW = {  # options for two steps, and the claims that then fail, by their first words; theorems hold all the same
    "05_causal_mask": ({"steps": 2}, ["with the mask the loss", "without it, far below", "only the model with the mask"]),
    "06_heads": (
        {"xor_steps": 2, "job_steps": 2},
        ["XOR: two heads and four", "two jobs: two heads", "two jobs: each of two heads", "one head with fewer kinds"],
    ),
    "07_projections": ({"steps": 2}, ["separate W_q, W_k, W_v", "W_k = W_v"]),
    "08_positions": ({"steps": 2}, ["with positions of either kind", "and each place looks", "with weight >= 0.8"]),
    "09_depth": ({"steps": 2}, ["two blocks"]),
}
SEED = 1


def shown(lesson, result, capsys, monkeypatch, *arguments):
    """The exit code of a lesson's main() and what it prints, for the numbers of a run that has been."""
    monkeypatch.setattr(lesson, "run", lambda *_: result)
    code, printed = lesson.main(["--seed", str(SEED), *arguments]), capsys.readouterr().out
    assert printed.startswith(lesson.__doc__.strip().splitlines()[0])
    assert max(map(len, printed.splitlines())) <= 140
    return code, printed


def check_picture(file):
    picture = ElementTree.parse(file).getroot()
    x, y, wide, high = map(float, picture.attrib["viewBox"].split())
    texts = picture.findall(".//{*}text")
    assert len(texts) > 5
    assert all(x <= float(e.attrib["x"]) <= wide and y <= float(e.attrib["y"]) <= high for e in texts)
    assert not re.search("nan|inf", "".join(e.attrib["d"] for e in picture.findall(".//{*}path")))


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_shows_what_it_claims(name, request, monkeypatch, tmp_path, capsys):
    if name in SLOW and not request.config.getoption("--all-lessons"):
        pytest.skip("needs --all-lessons")
    options, holds, spoil = LESSONS[name]
    lesson, file = importlib.import_module(name), tmp_path / "picture.svg"
    result = lesson.run(SEED, **options)
    holds(result)
    steps = ["--steps", str(options["steps"])] if "steps" in options else []
    code, printed = shown(lesson, result, capsys, monkeypatch, "--plot", str(file), *steps)
    assert code == 0
    assert "[ok]" in printed
    assert "[FAILED]" not in printed
    check_picture(file)
    assert file.stat().st_size < 60_000

    spoil(result)
    code, printed = shown(lesson, result, capsys, monkeypatch, *steps)
    assert code == 1
    assert "[FAILED]" in printed


@pytest.mark.parametrize("name", SLOW)
def test_a_lesson_that_has_not_learned_says_so(name, monkeypatch, tmp_path, capsys):
    options, failing = SLOW[name]
    lesson, file = importlib.import_module(name), tmp_path / "picture.svg"
    result = lesson.run(SEED, **options)
    steps = ["--steps", str(options["steps"])] if "steps" in options else []
    code, printed = shown(lesson, result, capsys, monkeypatch, "--plot", str(file), *steps)
    assert code == 1
    failed = re.findall(r"^  \[FAILED\] (.*)$", printed, re.M)
    assert [text[: len(words)] for text, words in zip(failed, failing, strict=True)] == failing
    check_picture(file)


# Theorems in the lessons ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 11))
def test_backward_takes_two_steps_a_diamond_where_recursion_doubles_or_is_wrong(n):
    paths, once, walk = importlib.import_module("01_chain_rule").stack(n)
    assert paths == (2**n, 2 ** (n + 1) - 2)
    assert once == (2, 2 * n)
    assert walk == (2**n, 2 * n)


def test_without_attention_the_two_sentences_cannot_be_told_apart():
    """No attention: the same word at the same place. A bag of words: the same words and places, only paired otherwise."""
    lesson, common = importlib.import_module("02_which_word"), importlib.import_module("common")
    ids = minigrad.tensor([[lesson.WORDS.index(w) for w in line.split()] for line in lesson.EXAMPLES])
    for mix in lesson.CONTROLS.values():
        model = common.Model(len(lesson.WORDS), lesson.LENGTH, 16, classes=2)
        model.attention = mix
        one, other = model(ids)[0][:, 2].detach().numpy()
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_cue_after_the_noun_cannot_reach_it_through_the_causal_mask():
    lesson, common = importlib.import_module("02_which_word"), importlib.import_module("common")
    model = common.Model(len(lesson.WORDS), lesson.LENGTH, 16, classes=2, causal=True)
    answers = set()
    for after in (*lesson.PREDICATES[0], *lesson.PREDICATES[1]):
        ids = minigrad.tensor([[lesson.WORDS.index(w) for w in ("我", "说", "苹果", after)]])
        answers.add(tuple(model(ids)[0][0, 2].tolist()))
    assert len(answers) == 1


def test_the_softmax_derivative_of_lesson_4_has_the_size_it_says():
    """|J|**2 = sum p**2 - 2 sum p**3 + (sum p**2)**2 for J = diag(p) - p p^T, against J itself."""
    lesson = importlib.import_module("04_sqrt_d")
    minigrad.manual_seed(3)
    found = lesson.statistics(5, draws=7)
    minigrad.manual_seed(3)
    q, keys = minigrad.randn(7, 1, 5), minigrad.randn(7, lesson.KEYS, 5)
    for kind, scale in (("raw", 1.0), ("scaled", 1 / math.sqrt(5))):
        p = (q @ keys.transpose(-2, -1) * scale).softmax(-1).double().numpy()[:, 0]
        sizes = [np.linalg.norm(np.diag(row) - np.outer(row, row)) for row in p]
        assert found[kind]["median |J|"] == pytest.approx(np.median(sizes), rel=1e-5)


def test_undoing_the_division_is_attention_without_it():
    lesson = importlib.import_module("04_sqrt_d")
    attention, x = nn.MultiHeadAttention(16, 1, causal=False), minigrad.randn(3, 16)
    attention.W_q = lesson.Times(attention.W_q, 4.0)
    q, k = attention.W_q.module(x), attention.W_k(x)
    np.testing.assert_allclose(attention(x, return_weights=True)[1][0].tolist(), (q @ k.T).softmax(-1).tolist(), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_leak_is_exactly_zero_and_each_mistake_is_caught(seed):
    lesson = importlib.import_module("05_causal_mask")
    minigrad.manual_seed(seed)
    found = {mistake: lesson.checks(mistake) for mistake in (*lesson.WEIGHTS, lesson.CUT)}
    failed = {mistake: {k for k, right in lesson.CHECKS.items() if not right(v[k])} for mistake, v in found.items()}
    assert found["none"]["leak"] == 0
    assert failed == {
        "none": set(),
        "mask after the softmax": {"leak", "sums"},
        "0 instead of -inf": {"leak"},
        "mask transposed": {"leak", "reach"},
        "triu(diagonal=0)": {"leak", "sums"},
        "heads cut without transpose": {"reach", "order"},
    }
    assert found[lesson.CUT]["leak"] == 0


def test_the_variant_without_a_mistake_is_multi_head_attention():
    lesson, x = importlib.import_module("05_causal_mask"), minigrad.randn(6, 8)
    attention = lesson.Mistaken(8, 2)
    expected, weights = nn.MultiHeadAttention.forward(attention, x, return_weights=True)
    for got, want in zip(attention(x, "none"), (expected, weights), strict=True):
        np.testing.assert_allclose(got.tolist(), want.tolist(), atol=1e-6)


def test_the_language_has_the_entropy_that_the_floor_says():
    lesson = importlib.import_module("05_causal_mask")
    minigrad.manual_seed(0)
    followers = minigrad.stack([minigrad.randperm(lesson.LETTERS)[:2] for _ in range(lesson.LETTERS)])
    ids = lesson.texts(followers, 20_000).numpy()
    table = followers.numpy()
    assert (ids[:, 2:, None] == table[ids[:, :-2]]).any(-1).all()
    share = (ids[:, 2:] == table[ids[:, :-2]][..., 0]).mean()
    assert share == pytest.approx(0.5, abs=0.01)
    counts = np.bincount(ids[:, 0] * lesson.LETTERS + ids[:, 1], minlength=144) / len(ids)
    assert counts == pytest.approx(1 / 144, abs=0.003)


def test_one_head_cannot_do_xor_whatever_its_weights():
    """Random weights of every size, and weights that training has pushed against the floor: at most 3 of 4, (ln 2) / 2 at least."""
    lesson, common = importlib.import_module("06_heads"), importlib.import_module("common")
    minigrad.manual_seed(0)
    lowest = {1: math.inf, 2: math.inf}
    for heads in lowest:
        for i in range(16):
            model = common.Model(3, 3, 8, classes=2, num_heads=heads).double()
            for p in model.parameters():
                p.data = minigrad.randn_like(p).data * 10 ** (i % 4 - 1.5)
            if i % 4 == 1:
                common.train(model, lambda m=model: F.cross_entropy(m(lesson.CASES)[0][:, 2], lesson.DIFFER), steps=60, lr=0.05)
            logits = model(lesson.CASES)[0][:, 2]
            lowest[heads] = min(lowest[heads], F.cross_entropy(logits, lesson.DIFFER).item())
            if heads == 1:
                assert (logits.argmax(-1) == lesson.DIFFER).long().sum().item() <= 3
    assert lowest[1] >= math.log(2) / 2 - 1e-12
    assert lowest[2] < 0.1 < lowest[1] < 0.36  # two heads go below the floor, and one comes near it


@pytest.mark.parametrize("seed", range(2))
def test_the_identity_of_lesson_6_holds_for_one_head_to_rounding(seed):
    lesson = importlib.import_module("06_heads")
    assert max(lesson.violations(1, seed, models=20)) < 1e-9
    assert max(lesson.violations(2, seed, models=20)) > 0.01


def test_two_heads_do_xor_by_hand():
    cases = np.array(importlib.import_module("06_heads").by_hand())
    np.testing.assert_allclose(cases[:, -1], cases[:, 0] != cases[:, 1], atol=1e-6)
    np.testing.assert_allclose(cases[:, 3], cases[:, :2].sum(1) / 3, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_tied_queries_and_keys_make_scores_symmetric_and_circles_disagree(seed):
    lesson, common = importlib.import_module("07_projections"), importlib.import_module("common")
    minigrad.manual_seed(seed)
    for tie in (True, False):
        model = common.Model(lesson.KINDS, lesson.T, 32).double()
        if tie:
            model.attention.W_k = model.attention.W_q
        ids = minigrad.randint(0, lesson.KINDS, (50, lesson.T))
        found = [lesson.measured(model, circles, ids) for circles in lesson.CIRCLES.values()]
        assert all((x["asymmetry"] < 1e-12 and x["excess"] < 1e-12 and x["agree"] == 0) == tie for x in found)


def test_one_head_needs_no_value_projection_and_two_do():
    lesson, common = importlib.import_module("07_projections"), importlib.import_module("common")
    minigrad.manual_seed(0)
    ids = minigrad.randint(0, lesson.KINDS, (50, lesson.T))
    for heads, redundant in ((1, True), (2, False)):
        change = lesson.without_W_v(common.Model(lesson.KINDS, lesson.T, 32, num_heads=heads).double(), ids)
        assert (change < 1e-12) == redundant


@pytest.mark.parametrize("seed", range(5))
def test_without_positions_a_shuffle_shuffles_the_outputs(seed):
    lesson = importlib.import_module("08_positions")
    gaps = {kind: lesson.shuffle_gap(lesson.fresh(kind, seed)) for kind in ("none", "learned", "sinusoidal")}
    assert gaps["none"] < 1e-12 < 0.1 < min(gaps["learned"], gaps["sinusoidal"])
    one, other = lesson.at_me(lesson.fresh("none", seed))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_products_of_sinusoids_depend_on_the_distance_alone():
    p = importlib.import_module("08_positions").sinusoids(11, 6).numpy()
    np.testing.assert_allclose(p[0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(p[3, 2:4], [math.sin(3 / 10000 ** (2 / 6)), math.cos(3 / 10000 ** (2 / 6))], rtol=1e-5)
    for k in range(11):
        np.testing.assert_allclose(np.diag(p @ p.T, k), (p[0] * p[k]).sum(), atol=1e-5)


def test_the_next_letter_of_lesson_9_is_the_one_that_came_after_the_same_letter():
    ids, targets, lengths = (np.asarray(x) for x in importlib.import_module("09_depth").lines(200))
    assert set(lengths.ravel()) == {4, 5, 6, 7, 8}
    for line, target, (n,) in zip(ids, targets, lengths, strict=True):
        assert len(set(line[:n])) == n
        assert (target[: n - 1] == -100).all()
        assert (target[n - 1 :] == np.resize(line[:n], len(line) + 1)[n:]).all()
        assert (line == np.resize(line[:n], len(line))).all()


@pytest.mark.parametrize("seed", range(5))
def test_attention_over_one_token_is_linear_and_swiglu_is_not(seed):
    lesson = importlib.import_module("10_thinking")
    assert lesson.nonlinearity(1, seed)[0] < 1e-12 < 0.1 < lesson.nonlinearity(2, seed)[0]
    f, a = nn.SwiGLU(5, 11).double(), minigrad.randn(7, 5, dtype="float64")
    assert (f(2 * a) - 2 * f(a)).abs().max().item() > 1e-3


# The scripts ----------------------------------------------------------------------------------------------------


def test_all_runs_every_script_in_order_and_fails_when_one_does(monkeypatch, tmp_path, capsys):
    everything = importlib.import_module("all")
    (tmp_path / "02_bad.py").write_text("import sys; print('  [ok] a'); print('  [FAILED] b'); sys.exit(1)")
    (tmp_path / "01_good.py").write_text("import sys; print('  [ok]', sys.argv); open(sys.argv[-1], 'w').close()")
    monkeypatch.setattr(everything, "HERE", tmp_path)
    assert everything.main(["--plots", str(tmp_path / "figures")]) == 1
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert re.match(r"pass  01_good +1 of  1 claims held", first)
    assert re.match(r"FAIL  02_bad +1 of  2 claims held", second)
    assert rest[0] == "  [FAILED] b"
    assert (tmp_path / "figures" / "01_good.svg").exists()
    (tmp_path / "02_bad.py").unlink()
    assert everything.main(["--plots", str(tmp_path / "figures"), "--seed", "7"]) == 0
    assert "1 of 1 lessons passed" in capsys.readouterr().out


def test_every_lesson_is_in_the_table():
    assert sorted(LESSONS) == sorted(file.stem for file in FOLDER.glob("[0-9][0-9]_*.py"))


def test_the_text_heat_map():
    common = importlib.import_module("common")
    drawn = common.heat_map([[0.0, 1.0], [0.55, 0.45]], ["我", "ab"], ["苹果", "x"])
    assert drawn.split("\n") == ["      苹x", "      果", "  我 |  @@|", "  ab |++==|", "  from 0 to 1: ' .:-=+*#%@'"]
