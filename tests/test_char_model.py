"""The character model: what the grammar is, what the baselines are, what a step does, and the figures it reaches."""

import importlib
import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import layers as nn
import minigrad

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NUMBERS = r"\d\.\d{3} nats per character \((oracle \d\.\d{3}, )?bigram \d\.\d{3}, unigram \d\.\d\d\)"


@pytest.fixture(scope="module")
def char_model():
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("char_model")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture
def prose(tmp_path):
    """A small text: two sorts of lines, the second with an umlaut and a rare character only near the end."""
    file = tmp_path / "prose.txt"
    file.write_text("ein Hund bellt\n" * 30 + "eine Kätze schläft\n" * 30 + "Ω ein Hund\n", encoding="utf-8")
    return file


def run(char_model, capsys, *options):
    numbers = char_model.train(char_model.arguments([str(option) for option in options]))
    printed = capsys.readouterr().out
    assert re.fullmatch(f"held-out loss {NUMBERS}", printed.splitlines()[-1])
    return numbers, printed


# The figures ------------------------------------------------------------------------------------------------------


def test_the_default_run_reaches_its_figures(char_model, capsys):
    numbers, printed = run(char_model, capsys)
    assert numbers["held-out"] <= 1.22
    assert numbers["oracle"] == pytest.approx(1.19, abs=0.01)
    assert -0.005 < numbers["held-out"] - numbers["oracle"] < 0.03
    assert numbers["bigram"] == pytest.approx(1.46, abs=0.02)
    assert numbers["unigram"] == pytest.approx(3.33, abs=0.02)
    assert numbers["agreement"] >= 0.99
    assert len(re.findall(r"^step +\d+/600   loss \d\.\d{3} +[\d,]+ tokens/s +\d+ s left   [这那每某]..+$", printed, re.M)) == 10
    assert "13,765 weights" in printed
    assert "entropy exactly 1.168 nats" in printed


def test_without_attention_a_third_of_the_nouns_fit(char_model, capsys):
    numbers, _ = run(char_model, capsys, "--no-attention", "--steps", 60)
    assert numbers["agreement"] == pytest.approx(1 / 3, abs=0.02)
    assert numbers["held-out"] > 1.4


# The grammar ------------------------------------------------------------------------------------------------------

ADJECTIVE = "[大小黑白老胖]"
NOUN_PHRASE = "|".join(
    f"[这那每某]{measure}(?:{ADJECTIVE}的|又({ADJECTIVE})又(?!\\{i}){ADJECTIVE}的)?[{nouns}]"
    for i, (measure, nouns) in enumerate({"只": "猫鸟羊鸡", "条": "鱼蛇狗龙", "头": "牛猪象驴"}.items(), 1)
)


def is_sentence(text):
    phrase = rf"(?:{NOUN_PHRASE})"
    parts = re.fullmatch(rf"{phrase}(?:在[跑睡叫吃]|[看怕追爱](.*))。", text)
    return bool(parts) and (parts[4] is None or bool(re.fullmatch(phrase, parts[4])))


def test_the_sentences_are_those_of_the_grammar(char_model):
    minigrad.manual_seed(3)
    text = char_model.sentences(3000)
    assert all(map(is_sentence, text))
    assert not any(
        map(is_sentence, ["这只狗在跑。", "这条又大又大的狗在跑。", "这条狗跑。", "这条狗看。", "这条狗看那只狗。", "这条狗在跑"])
    )
    share = {
        name: sum(bool(re.search(pattern, s)) for s in text) / 3000
        for name, pattern in {"在": "在", "又": "^..又", "A": f"^..{ADJECTIVE}"}.items()
    }
    assert share == pytest.approx({"在": 0.5, "又": 0.3, "A": 0.3}, abs=0.03)
    assert max(map(len, text)) <= char_model.LONGEST
    for place, count in ((0, 4), (1, 3), (-2, 16)):
        assert len(Counter(s[place] for s in text)) == count


def test_probabilities_sum_to_one_and_the_entropy_is_exact(char_model):
    """The whole tree of beginnings: up to the first noun, then behind one noun that stands for all."""
    nats = length = tree = 0.0
    for root, ends in (("", char_model.ALL_NOUNS), ("这只猫", "。")):
        waiting = [(root, 1.0)]
        while waiting:
            begun, p = waiting.pop()
            choices = char_model.following(begun)
            assert sum(choices.values()) == pytest.approx(1)
            nats -= p * sum(q * math.log(q) for q in choices.values())
            length, tree = length + p, tree + 1
            waiting += [(begun + character, p * q) for character, q in choices.items() if character not in ends]
    assert tree > 1000
    assert char_model.entropy() == pytest.approx(nats / length, rel=1e-12)
    assert char_model.entropy() == pytest.approx(1.168, abs=5e-4)


def test_the_oracle_on_paper(char_model):
    losses = char_model.oracle("这只猫在跑。那条又大又")
    p = [1 / 4, 1 / 3, 0.4 / 4, 1 / 2, 1 / 4, 1, 1 / 4, 1 / 3, 0.3, 1 / 6, 1]
    assert losses == pytest.approx([-math.log(x) for x in p])
    with pytest.raises(KeyError):
        char_model.oracle("这只狗")


# The data ---------------------------------------------------------------------------------------------------------


def test_windows_of_a_file(char_model, prose):
    whole = prose.read_text(encoding="utf-8")
    text = char_model.Text(str(prose), 7)
    cut = len(text.train)
    assert text.train == whole[:cut]
    assert len(whole) - cut == math.ceil(len(whole) / 10)
    assert set(text.characters) == set(whole)
    assert "".join(window[:7] for window in text.windows) == whole[cut : cut + 7 * len(text.windows)]
    assert len(text.windows) == (len(whole) - cut - 1) // 7
    assert [text.decode(row) for row in text.held_out.tolist()] == text.windows
    minigrad.manual_seed(0)
    drawn = text.batch(500)
    assert drawn.shape == (500, 8)
    lines = [text.decode(row) for row in drawn.tolist()]
    assert all(line in text.train for line in lines)
    assert len(set(lines)) > 20


def test_windows_of_the_grammar_begin_with_sentences(char_model):
    minigrad.manual_seed(1)
    text = char_model.Text(None, 32)
    assert len(text.windows) > 300
    lines = [text.decode(row) for row in text.batch(100).tolist()]
    for window in [*text.windows, *lines]:
        assert len(window) == 33
        char_model.oracle(window)  # a KeyError for anything that isn't the grammar
        assert is_sentence(window[: window.index("。") + 1])
    for window, following in pairwise(text.windows):
        inside = [window[i:] for i in range(10, 23) if window[i - 1] == "。"]
        assert not any(following.startswith(tail) for tail in inside)  # they don't overlap
    text.windows = ["这只猫在跑。"]
    assert text.baselines()["oracle"] == pytest.approx(-np.mean(np.log([1 / 3, 0.4 / 4, 1 / 2, 1 / 4, 1])))


def test_the_baselines_count(char_model, tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("abab" * 10 + "abc\n", encoding="utf-8")
    text = char_model.Text(str(file), 3)
    train, held = "abab" * 9 + "aba", "babc\n"
    assert (text.train, text.windows, text.characters) == (train, ["babc"], "\nabc")
    one = {"a": 21 / 43, "b": 20 / 43, "c": 1 / 43}
    two = {"ba": (19 + one["a"]) / 20, "ab": (19 + one["b"]) / 21, "bc": (0 + one["c"]) / 20}
    found = text.baselines()
    assert found["unigram"] == pytest.approx(-np.mean(np.log([one[c] for c in "abc"])))
    assert found["bigram"] == pytest.approx(-np.mean(np.log(list(two.values()))))
    assert held.startswith(text.windows[0])


@pytest.mark.parametrize("content", [b"too short", "caf\u00e9".encode("latin-1") * 99, b""])
def test_a_text_that_will_not_do_is_refused(char_model, tmp_path, capsys, content):
    file = tmp_path / "t.txt"
    file.write_bytes(content)
    with pytest.raises(SystemExit):
        char_model.arguments(["--text", str(file)])
    assert re.search("too short for windows of 33|is not UTF-8", capsys.readouterr().err)


# A step -----------------------------------------------------------------------------------------------------------


def prepared(char_model, prose, *options):
    args = char_model.arguments(["--text", str(prose), "--length", "7", *options])
    options = {name: getattr(args, name) for name in char_model.DEFAULTS}
    model = char_model.build(options, len(args.data.characters))
    return args.data, options, model, char_model.optimizer_of(model, options)


def test_accumulated_parts_make_the_step_of_the_whole_batch(char_model, prose, monkeypatch):
    text, options, model, optimizer = prepared(char_model, prose, "--batch", "16")
    windows, start = text.batch(16), model.state_dict()
    norms, sizes, clip, objective = [], [], nn.utils.clip_grad_norm_, char_model.objective
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda params, most: norms.append(clip(list(params), most).item()))
    monkeypatch.setattr(char_model, "objective", lambda m, part: sizes.append(len(part)) or objective(m, part))
    losses, weights = [], []
    for parts in (1, 3):
        model.load_state_dict(start)
        optimizer = char_model.optimizer_of(model, options)
        losses.append(char_model.update(model, optimizer, windows, 5, {**options, "accumulate": parts}))
        weights.append(minigrad.cat([p.reshape(-1) for p in model.parameters()]).detach().numpy())
    assert sizes == [16, 6, 6, 4]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    np.testing.assert_allclose(*weights, atol=1e-4)
    assert not any(p.grad is not None and p.grad.data.any() for p in model.parameters())


def test_a_step_clips_the_gradient_and_follows_the_schedule(char_model, prose, monkeypatch):
    text, options, model, optimizer = prepared(char_model, prose, "--lr", "0.5", "--decay", "100", "--steps", "100")
    for p in model.parameters():
        p.data = p.data * 5  # the first gradient is then large
    norms, step = [], optimizer.step
    params = list(model.parameters())
    monkeypatch.setattr(optimizer, "step", lambda: norms.append(math.sqrt(sum(float((p.grad.data**2).sum()) for p in params))) or step())
    char_model.update(model, optimizer, text.batch(4), 9, options)
    assert norms == [pytest.approx(1.0, abs=1e-3)]
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]  # half way up, at the tenth of 20 steps


def test_the_rate_falls_until_the_last_step_but_not_before_the_default(char_model, prose):
    for options, until in (([], 600), (["--steps", "10"], 600), (["--steps", "900"], 900), (["--steps", "10", "--decay", "40"], 40)):
        _, options, _, _ = prepared(char_model, prose, *options)
        assert options["decay"] == until
        assert char_model.learning_rate(until - 1, options) == pytest.approx(options["lr"] / 10)


def test_weights_decay_in_matrices_only(char_model, prose):
    _, _, model, optimizer = prepared(char_model, prose, "--weight-decay", "0.3")
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name: decay[id(p)] for name, p in model.named_parameters() if decay[id(p)] != (0.3 if p.ndim == 2 else 0.0)} == {}
    assert sorted(set(decay.values())) == [0.0, 0.3]


def test_what_is_written_on_the_way_disturbs_nothing(char_model, prose):
    text, _, model, _ = prepared(char_model, prose)
    state = minigrad.get_rng_state()
    line = char_model.written(model, text, 7)
    assert len(line) == 7
    assert minigrad.get_rng_state().equal(state)
    assert "\n" not in "".join(char_model.written(model, text, 7) for _ in range(10) if text.batch(1) is not None)


# The command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [(), ("--positions", "rotary", "--tied", "--layers", "2"), ("--no-attention", "--accumulate", "2")])
def test_a_compiled_model_learns_the_same_numbers(char_model, capsys, prose, kind):
    options = ("--text", prose, "--steps", 30, *kind)
    assert run(char_model, capsys, *options, "--compile")[0] == run(char_model, capsys, *options)[0]


def test_a_resumed_run_ends_with_the_same_numbers(char_model, capsys, prose, tmp_path):
    common = ["--text", prose, "--length", 7, "--seed", 3]
    whole, _ = run(char_model, capsys, *common, "--steps", 24, "--save", tmp_path / "whole.npz")
    run(char_model, capsys, *common, "--steps", 10, "--save", tmp_path / "half.npz")
    resumed, printed = run(char_model, capsys, "--resume", tmp_path / "half.npz", "--steps", 24, "--save", tmp_path / "both.npz")
    assert "going on after step 10" in printed
    assert resumed == whole
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "both.npz").read_bytes()
    other, _ = run(char_model, capsys, *common[:-1], 4, "--steps", 24)
    assert other["held-out"] != whole["held-out"]
    assert "oracle" not in whole


def test_ctrl_c_ends_after_a_whole_step_and_the_run_can_go_on(char_model, capsys, prose, tmp_path, monkeypatch):
    common = ["--text", prose, "--length", 7, "--steps", 24, "--save"]
    whole, _ = run(char_model, capsys, *common, tmp_path / "whole.npz")
    update = char_model.update

    def interrupted(model, optimizer, windows, step, options):
        if step == 8:
            signal.raise_signal(signal.SIGINT)
        return update(model, optimizer, windows, step, options)

    with monkeypatch.context() as patch:
        patch.setattr(char_model, "update", interrupted)
        _, printed = run(char_model, capsys, *common, tmp_path / "broken.npz")
    assert "stopped after 9 steps" in printed
    resumed, _ = run(char_model, capsys, "--resume", tmp_path / "broken.npz")
    assert resumed == whole


def test_all_its_options_train(char_model, capsys, prose):
    options = [
        "--text",
        prose,
        "--length",
        8,
        "--width",
        12,
        "--heads",
        3,
        "--layers",
        2,
        "--positions",
        "rotary",
        "--tied",
        "--accumulate",
        2,
    ]
    numbers, printed = run(char_model, capsys, *options, "--steps", 60)
    assert numbers["held-out"] < numbers["unigram"]
    assert "⏎" in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", "-1"], "--steps"),
        *[(["--lr", wrong], "--lr: must be a finite number above 0") for wrong in ("0", "nan")],
        (["--weight-decay", "-1"], "--weight-decay"),
        (["--heads", "0"], "--heads: must be at least 1"),
        (["--heads", "5"], "--heads must divide --width"),
        (["--width", "12", "--heads", "4", "--positions", "rotary"], "even"),
        (["--batch", "0"], "--batch: must be at least 1, got 0"),
        (["--positions", "absolute"], "rotary"),
        (["--save", "no/such/folder/w.npz"], "no such folder"),
        (["--save", os.devnull], "not a file"),
        (["--resume", __file__], "not a whole file"),
        (["--resume", "nowhere.npz"], "nowhere.npz"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_wrong_options_are_refused_before_any_work(char_model, capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        char_model.arguments(options)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_resuming_as_something_else_or_on_another_text_is_refused(char_model, capsys, prose, tmp_path):
    file = tmp_path / "w.npz"
    run(char_model, capsys, "--text", prose, "--length", 7, "--steps", 1, "--save", file)
    with pytest.raises(SystemExit):
        char_model.arguments(["--resume", str(file), "--width", "64"])
    assert "width = 32" in capsys.readouterr().err
    prose.write_text(prose.read_text(encoding="utf-8").replace("Hund", "Hand"), encoding="utf-8")
    with pytest.raises(SystemExit):
        char_model.arguments(["--resume", str(file)])
    assert "another text" in capsys.readouterr().err


# generate.py ------------------------------------------------------------------------------------------------------


def test_generate_writes_what_the_model_says_and_draws_the_curve(char_model, capsys, prose, tmp_path, monkeypatch):
    file = tmp_path / "w.npz"
    run(char_model, capsys, "--text", prose, "--length", 24, "--steps", 20, "--batch", 4, "--save", file)
    script = importlib.import_module("generate")
    found = script.main(script.arguments([str(file), "--prompt", "ein H", "--greedy", "--count", "9"]))
    printed = capsys.readouterr().out
    text, model = (
        char_model.Text(str(prose), 24),
        char_model.build(minigrad.load(file)["options"], len(char_model.Text(str(prose), 24).characters)),
    )
    model.load_state_dict(minigrad.load(file)["model"])
    line = "ein H"
    for _ in range(9):
        line += text.characters[int(model(text.encode(line))[-1].argmax())]
    assert printed.startswith(line + "\n")
    assert text.decode(found["ids"].tolist()) == line
    assert printed.count("█") >= 2 * len(found["places"])
    assert all(t > 0 for each in found["times"].values() for t in each)
    for name in ("matplotlib", "matplotlib.backend_bases"):
        monkeypatch.setitem(sys.modules, name, None)
    assert script.arguments([str(file), "--plot", "x.svg"]).plot is None
    assert "pip install matplotlib" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prompt", "!"], "'!'"),
        (["--prompt", ""], "at least one character"),
        (["--count", "-5"], "--count: must be 0 or more, got -5"),
        (["--top-p", "2"], "--top-p: must be above 0 and at most 1, got 2"),
        (["--top-k", "0"], "--top-k: must be at least 1, got 0"),
        *[(["--temperature", wrong], "--greedy") for wrong in ("0", "-1", "nan", "inf")],
        (["--plot", "no/such/folder/t.svg"], "no such folder"),
        (["nowhere.npz"], "nowhere.npz"),
        ([__file__], "not a whole file"),
    ],
)
def test_generate_refuses_wrong_options_before_any_work(char_model, capsys, monkeypatch, options, words):
    if "--plot" in options:
        pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    script = importlib.import_module("generate")
    monkeypatch.setattr(char_model, "train", None)
    with pytest.raises(SystemExit) as stopped:
        script.arguments(options)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_a_file_of_something_else_is_refused(char_model, capsys, tmp_path):
    file, script = str(tmp_path / "w.npz"), importlib.import_module("generate")
    for content in ({"a": 1}, minigrad.ones(2), {"options": {}, "characters": "ab"}, {"options": 3}):
        minigrad.save(content, file)
        for refuse, words in (
            (lambda: char_model.arguments(["--resume", file]), "this example"),
            (lambda: script.arguments([file]), "char_model.py"),
        ):
            with pytest.raises(SystemExit):
                refuse()
            assert f"is not what {words} saves" in capsys.readouterr().err


def test_the_curve_of_generate_as_text_and_picture(char_model, tmp_path):
    script = importlib.import_module("generate")
    times = {"with the cache": [1.0, 1.0], "without": [1.0, 3.0]}
    lines = script.curve([8, 16], times).splitlines()
    assert [line.count("█") for line in lines[2:]] == [20, 40]
    assert [line.split()[0] for line in lines[2:]] == ["7", "15"]
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    script.picture(str(tmp_path / "t.svg"), [8, 16], times)
    assert "with the cache" in (tmp_path / "t.svg").read_text(encoding="utf-8")


def test_the_scripts_run_from_anywhere(prose, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    file = tmp_path / "w.npz"
    for command in (
        ["char_model.py", "--text", prose, "--length", "9", "--steps", "2", "--save", file],
        ["generate.py", file, "--seed", "1"],
    ):
        command = [sys.executable, EXAMPLES / command[0], *command[1:]]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, cwd=tmp_path, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "\r" not in done.stdout
