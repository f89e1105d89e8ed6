"""The examples run as a learner runs them, print what they promise, and fail when what they show stops being true."""

import importlib
import os
import pty
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import layers
import minigrad

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LAST = re.compile(r"held-out exact match \d+\.\d % \(512 sequences never seen in training\)")


@pytest.fixture(scope="module", autouse=True)
def on_the_path():
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def run(*command, **options):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=60, **options)


# run.py ---------------------------------------------------------------------------------------------------------

FRAME = """\
注意力权重矩阵 (因果 mask 生效):
        t0    t1    t2    t3
  t0  [1.00  0.00  0.00  0.00]
  t1  [0.xx  0.xx  0.00  0.00]
  t2  [0.xx  0.xx  0.xx  0.00]
  t3  [0.xx  0.xx  0.xx  0.xx]

MultiHeadAttention: 输入 (4, 8) → 输出 (4, 8)  ✅

✅ step03_attention 通过
"""


def test_the_chapters_script_prints_its_frame(capsys):
    done = run(EXAMPLES / "run.py")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(re.escape(FRAME).replace(r"0\.xx", r"0\.\d\d"), done.stdout)
    runpy.run_path(str(EXAMPLES / "run.py"))
    assert capsys.readouterr().out == done.stdout  # the same in every run
    for row in re.findall(r"\[(.*)\]", done.stdout):
        assert sum(map(float, row.split())) == pytest.approx(1.0, abs=0.021)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"softmax": lambda x, dim: minigrad.softmax(x, dim) * 0 + 0.25}, "未来"),
        ({"triu": lambda x, diagonal: minigrad.tril(x, -diagonal)}, "未来"),
        ({"softmax": lambda x, dim: minigrad.softmax(x, 0)}, "每行|不同"),
        ({"matmul": lambda a, b: minigrad.matmul(a, b)[:, :3]}, "形状|shape"),
    ],
    ids=["leak", "transposed mask", "wrong dim", "wrong shape"],
)
def test_the_chapters_script_fails_loudly(monkeypatch, capsys, broken, message):
    script = (EXAMPLES / "run.py").read_text(encoding="utf-8")
    fake = type("fake", (), {"__getattr__": lambda _, name: broken.get(name) or getattr(minigrad, name)})()
    script = script.replace("import minigrad as torch", "torch = FAKE")
    with pytest.raises((SystemExit, ValueError)) as error:
        exec(compile(script, "run.py", "exec"), {"FAKE": fake, "__file__": str(EXAMPLES / "run.py")})
    assert re.search(message, str(error.value))


# train.py -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train():
    return importlib.import_module("train")


def train_on(train, capsys, *options):
    numbers = train.train(train.arguments(list(options)))
    printed = capsys.readouterr().out
    assert LAST.fullmatch(printed.splitlines()[-1])
    return numbers, printed


@pytest.mark.parametrize("seed", range(10))
def test_reversal_is_learned_by_every_seed(train, capsys, seed, request):
    if seed > 2 and not request.config.getoption("--all-lessons"):
        pytest.skip("needs --all-lessons")
    numbers, _ = train_on(train, capsys, "--seed", str(seed))
    assert numbers["exact"] >= 0.99
    mirror = np.flip(numbers["weights"], -1).diagonal(axis1=-2, axis2=-1)
    assert mirror.mean() >= 0.8  # each output looks at its mirror image


def test_without_positions_or_with_a_causal_mask_it_cannot(train, capsys):
    assert train_on(train, capsys, "--no-positions")[0]["exact"] <= 0.01
    assert train_on(train, capsys, "--causal")[0]["exact"] <= 0.01


def test_the_other_tasks(train, capsys):
    assert train_on(train, capsys, "--task", "copy", "--steps", "100")[0]["exact"] >= 0.99
    numbers, printed = train_on(train, capsys, "--task", "sort", "--steps", "150")
    assert numbers["exact"] >= 0.5
    assert printed.count("head ") == 4
    ids = minigrad.tensor([[3, 1, 2, 1]])
    targets = {name: task.target(ids).tolist() for name, task in train.TASKS.items()}
    assert targets == {"reverse": [[1, 2, 1, 3]], "copy": [[3, 1, 2, 1]], "sort": [[1, 1, 2, 3]]}


def test_same_seed_same_numbers(train, capsys):
    first, second = (train_on(train, capsys, "--steps", "20")[0] for _ in range(2))
    assert first["loss"] == second["loss"]
    assert (first["weights"] == second["weights"]).all()
    assert train_on(train, capsys, "--steps", "20", "--seed", "1")[0]["loss"] != first["loss"]


def test_what_is_held_out_is_never_trained_on(train, capsys, monkeypatch):
    seen, draw = [], train.batch
    monkeypatch.setattr(train, "VOCABULARY", 2)  # 2**12 sequences, an eighth of them held out: they would turn up at once
    monkeypatch.setattr(train, "batch", lambda *args: seen.append((args[2], draw(*args))) or seen[-1][1])
    train_on(train, capsys, "--steps", "3", "--batch", "8")
    assert len(seen) == 3
    assert all(held_out.isdisjoint(train.number(ids).tolist()) for held_out, ids in seen)


def test_a_resumed_run_ends_with_the_same_numbers(train, capsys, tmp_path):
    file = str(tmp_path / "half.npz")
    whole, _ = train_on(train, capsys, "--steps", "30", "--save", str(tmp_path / "whole.npz"))
    train_on(train, capsys, "--steps", "12", "--save", file)
    resumed, printed = train_on(train, capsys, "--resume", file, "--steps", "30", "--save", str(tmp_path / "both.npz"))
    assert "going on after step 12" in printed
    assert resumed["loss"] == whole["loss"]
    assert (resumed["weights"] == whole["weights"]).all()
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "both.npz").read_bytes()
    weights = minigrad.load(file)["model"]
    assert {"token", "position", "head.bias", "attention.W_q.weight"} <= set(weights)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", "-1"], "--steps"),
        (["--heads", "5"], "32"),
        (["--task", "fly"], "reverse"),
        (["--save", "no/such/folder/w.npz"], "no such folder"),
        (["--resume", __file__], "not a whole file"),
        (["--resume", "nowhere.npz"], "nowhere.npz"),
        *[(["--lr", wrong], "--lr: must be a finite number above 0") for wrong in ("0", "-1", "nan", "inf")],
        (["--batch", "0"], "--batch: must be at least 1, got 0"),
        (["--batch", "x"], "invalid int value: 'x'"),
        (["--heads", "0"], "--heads: must be at least 1"),
        (["--save", os.devnull], "not a file"),
        (["--save", str(EXAMPLES)], "not a file"),
    ],
)
def test_wrong_options_are_refused_before_any_work(train, capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        train.arguments(options)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_resuming_as_something_else_is_refused(train, capsys, tmp_path):
    file = str(tmp_path / "w.npz")
    train_on(train, capsys, "--steps", "1", "--save", file)
    with pytest.raises(SystemExit):
        train.arguments(["--resume", file, "--heads", "4"])
    assert "heads = 1" in capsys.readouterr().err


def test_a_picture_or_a_clear_message(train, capsys, monkeypatch, tmp_path):
    file = tmp_path / "map.svg"
    for name in ("matplotlib", "matplotlib.backend_bases"):  # as if it were not installed
        monkeypatch.setitem(sys.modules, name, None)
    _, printed = train_on(train, capsys, "--steps", "1", "--plot", str(file))
    assert "pip install matplotlib" in printed.splitlines()[0]
    assert not file.exists()


@pytest.fixture
def plots():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")


def test_the_picture(train, capsys, tmp_path, plots):
    train_on(train, capsys, "--steps", "1", "--heads", "2", "--plot", str(tmp_path / "map.svg"))
    assert "<svg" in (tmp_path / "map.svg").read_text()


@pytest.mark.parametrize(
    ("name", "words"), [("map.xyz", r"map\.xyz.* \.png .* \.svg"), ("map", r"\.png"), ("no/map.svg", "no such folder")]
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_training(train, capsys, plots, name, words):
    with pytest.raises(SystemExit) as stopped:
        train.arguments(["--plot", name])
    assert stopped.value.code == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_folder_without_permission_is_refused_before_the_training(train, capsys, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SystemExit):
        train.arguments(["--save", str(tmp_path / "w.npz")])
    assert "nothing can be written" in capsys.readouterr().err


def fails_at_the_end(capsys, script, file, *options):
    """What can be written before the training and can't be after it: the report comes, then a sentence."""
    args = script.arguments([*options, str(file)])
    file.mkdir()
    with pytest.raises(SystemExit, match=rf"^{re.escape(str(file))} could not be written: .+$"):  # a text: the exit status is 1
        script.train(args)
    return capsys.readouterr().out.splitlines()[-1]


def test_a_file_that_cannot_be_written_in_the_end_costs_no_report(train, capsys, tmp_path):
    assert LAST.fullmatch(fails_at_the_end(capsys, train, tmp_path / "w.npz", "--steps", "1", "--save"))
    char_model = importlib.import_module("char_model")
    assert "held-out loss" in fails_at_the_end(capsys, char_model, tmp_path / "c.npz", "--steps", "1", "--save")


def test_a_picture_that_cannot_be_written_in_the_end_costs_no_report(train, capsys, tmp_path, plots):
    assert LAST.fullmatch(fails_at_the_end(capsys, train, tmp_path / "map.svg", "--steps", "1", "--plot"))


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    command = [sys.executable, EXAMPLES / "train.py", "--steps", "100000", "--save", tmp_path / "w.npz"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert "weights, all random" in process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
        assert process.wait(30) == 0
    step = int(re.search(r"stopped after (\d+) steps", printed)[1])
    assert LAST.fullmatch(printed.splitlines()[-1])
    assert minigrad.load(tmp_path / "w.npz")["step"] == step


def test_progress_rewrites_one_line_on_a_terminal_and_prints_plain_lines_elsewhere(train, capsys):
    _, piped = train_on(train, capsys, "--steps", "20")
    assert "\r" not in piped
    assert len(re.findall(r"^step +\d+/20 .* left$", piped, re.M)) == 10
    reader, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, EXAMPLES / "train.py", "--steps", "20"], stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(reader, 65536)
        except OSError:  # how a terminal says that it was closed
            break
        if not piece:
            break
        shown += piece
    os.close(reader)
    assert process.wait(30) == 0
    assert re.search(rb"\rstep +20/20 +loss .* digits right .* left\r\n", shown)


def test_the_model_is_the_librarys_own(train):
    model = train.Model(length=12, heads=1, positions=True, causal=False)
    assert sum(p.numel() for p in model.parameters()) == 5130
    assert isinstance(model.attention, layers.MultiHeadAttention)


# All of them as programs ----------------------------------------------------------------------------------------

PROGRAMS = [["train.py", "--steps", "20"], ["char_model.py", "--steps", "1"], ["generate.py", "--count", "1"]]
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@posix
@pytest.mark.parametrize("command", PROGRAMS, ids=lambda command: command[0])
def test_without_a_reader_they_end_without_a_word(command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, EXAMPLES / command[0], *command[1:]], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")  # as cat ends; a shell shows 141


FAKE = {  # packages that send Ctrl-C at a certain moment
    "numpy/__init__.py": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "matplotlib/__init__.py": "import os, signal\ndef use(_): os.kill(os.getpid(), signal.SIGINT)",
    "matplotlib/backend_bases.py": "class FigureCanvasBase: get_supported_filetypes = staticmethod(lambda: {'svg': ''})",
}


@posix
@pytest.mark.parametrize(("script", "moment"), [("train.py", "numpy"), ("train.py", "matplotlib"), ("char_model.py", "numpy")])
def test_ctrl_c_at_any_other_moment_is_one_line(tmp_path, script, moment):
    for name in FAKE:
        if name.startswith(moment):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(FAKE[name])
    options = ["--steps", "1", "--plot", tmp_path / "map.svg"] if moment == "matplotlib" else []
    done = run(EXAMPLES / script, *options, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "interrupted\n")  # a shell shows 130
    assert moment == "numpy" or LAST.fullmatch(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", [["run.py"], PROGRAMS[0], ["generate.py", "--help"]], ids=lambda command: command[0])
def test_a_terminal_that_knows_no_chinese_gets_question_marks(command):
    def printed(encoding):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run([sys.executable, EXAMPLES / command[0], *command[1:]], capture_output=True, env=environment, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        return re.sub(r" *[\d,.]+ (tokens/s|s left)", "", done.stdout.decode("utf-8"))

    assert printed("ascii") == printed("utf-8").encode("ascii", "replace").decode()
