"""The same weights in PyTorch: logits, gradients, training, and the way back; two processes; and what happens without PyTorch."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import layers as nn
import layers.functional as F
import minigrad

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def scripts(torch):
    """char_model.py and to_pytorch.py."""
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("char_model"), importlib.import_module("to_pytorch")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def trained(scripts, tmp_path_factory):
    """The options of a small model that was trained a little, and its file."""
    folder = tmp_path_factory.mktemp("trained")
    text, file = folder / "prose.txt", folder / "model.npz"
    text.write_text("ein Hund bellt\n" * 30 + "eine Katze schläft\n" * 30, encoding="utf-8")
    options = ["--text", text, "--length", 9, "--layers", 2, "--batch", 6, "--steps", 5, "--save", file]
    scripts[0].train(scripts[0].arguments([str(option) for option in options]))
    return file


def pair(scripts, vocab_size=65, **options):
    """Both models with the same random weights."""
    char_model, to_pytorch = scripts
    options = {**char_model.DEFAULTS, **options}
    minigrad.manual_seed(0)
    ours = char_model.build(options, vocab_size)
    for p in ours.parameters():  # norms start at 1: that would hide their places
        if p.ndim == 1:
            p.data = 1 + 0.3 * minigrad.randn(p.shape).data
    theirs = to_pytorch.Decoder(vocab_size, options)
    theirs.load_state_dict(to_pytorch.weights_there(ours.state_dict()))
    return ours, theirs


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("tied", [False, True])
def test_logits_to_1e_5_and_all_gradients_to_1e_4(scripts, torch, positions, tied):
    sizes = {"width": 64, "heads": 4, "layers": 2, "length": 128, "positions": positions, "tied": tied}
    ours, theirs = pair(scripts, **sizes)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert {n: t.shape for n, t in ours.state_dict().items()} == {n: tuple(t.shape) for n, t in theirs.state_dict().items()}
    ids = np.random.default_rng(1).integers(0, 65, (2, 129))
    y, z = ours(minigrad.tensor(ids[:, :-1])), theirs(torch.tensor(ids[:, :-1]))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=0, atol=1e-5)
    loss = F.cross_entropy(y.reshape(-1, 65), minigrad.tensor(ids[:, 1:].reshape(-1)))
    reference = torch.nn.functional.cross_entropy(z.reshape(-1, 65), torch.tensor(ids[:, 1:].reshape(-1)))
    loss.backward()
    reference.backward()
    assert loss.item() == pytest.approx(reference.item(), abs=1e-5)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert q.grad.abs().max() > 0
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-4 * float(q.grad.abs().max()), err_msg=name)


def test_a_layer_alone_is_the_same(scripts, torch):
    ours, theirs = pair(scripts, width=12, heads=3)
    x = np.random.default_rng(2).standard_normal((2, 7, 12)).astype("float32")
    for part in ("attention", "mlp", None):
        a, b = (model.layers[0] if part is None else getattr(model.layers[0], part) for model in (ours, theirs))
        np.testing.assert_allclose(a(minigrad.tensor(x)).detach().numpy(), b(torch.tensor(x)).detach().numpy(), atol=1e-5)


def test_there_and_back(scripts, trained, capsys, tmp_path):
    char_model, to_pytorch = scripts
    onwards = tmp_path / "onwards.npz"
    found = to_pytorch.main(to_pytorch.arguments([str(trained), "--steps", "20", "--save", str(onwards)]))
    printed = capsys.readouterr().out
    assert found["logits"] <= 1e-5
    assert found["back"] <= 1e-5
    assert found["losses"] <= 1e-4
    curve = [(float(a), float(b)) for a, b in re.findall(r"loss in minigrad (\S+) +in PyTorch (\S+)", printed)]
    assert len(curve) >= 6
    assert curve[-1] < curve[0]

    # minigrad alone, all 25 steps, and minigrad from where PyTorch left off, 5 more: the same
    five_more = char_model.train(char_model.arguments(["--resume", str(onwards), "--steps", "30", "--save", str(tmp_path / "a.npz")]))
    alone = char_model.train(char_model.arguments(["--resume", str(trained), "--steps", "30", "--save", str(tmp_path / "b.npz")]))
    assert five_more["held-out"] == pytest.approx(alone["held-out"], abs=1e-4)
    a, b = (minigrad.load(tmp_path / name) for name in ("a.npz", "b.npz"))
    assert a["step"] == b["step"] == 30
    for name, t in a["model"].items():
        np.testing.assert_allclose(t.numpy(), b["model"][name].numpy(), atol=1e-3)


def test_a_difference_is_an_error(scripts, trained, capsys, monkeypatch):
    _, to_pytorch = scripts
    monkeypatch.setattr(to_pytorch.F, "silu", to_pytorch.F.relu)
    with pytest.raises(SystemExit, match=r"differ: .*logits"):
        to_pytorch.main(to_pytorch.arguments([str(trained), "--steps", "2"]))


def test_safetensors(scripts, trained, capsys, tmp_path):
    pytest.importorskip("safetensors", reason="the hand-over by safetensors needs safetensors")
    from safetensors.torch import load_file

    _, to_pytorch = scripts
    file = tmp_path / "w.safetensors"
    state = minigrad.load(trained)["model"]
    to_pytorch.write_safetensors(state, str(file))
    back, theirs = to_pytorch.read_safetensors(str(file)), load_file(file)
    assert set(back) == set(theirs) == set(state)
    for name, t in state.items():
        assert back[name].equal(t)
        assert np.array_equal(theirs[name].numpy(), t.numpy())
    found = to_pytorch.main(to_pytorch.arguments([str(trained), "--steps", "0", "--safetensors", str(tmp_path / "x.safetensors")]))
    assert found["safetensors"] == 0


def test_what_cannot_be_carried_over_is_said(scripts, trained, capsys, monkeypatch):
    char_model, to_pytorch = scripts
    with pytest.raises(SystemExit, match="--no-attention"):
        to_pytorch.Decoder(5, {**char_model.DEFAULTS, "no_attention": True})
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(SystemExit):
        to_pytorch.arguments([str(trained), "--safetensors", "w.safetensors"])
    assert "pip install safetensors" in capsys.readouterr().err


def test_two_processes_do_what_one_does(trained, torch):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, EXAMPLES / "ddp.py", trained, "--steps", "5"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "between the processes: 0.0e+00" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 processes with half of each batch did what one does with the whole"


@pytest.mark.parametrize("name", ["to_pytorch", "ddp"])
def test_without_pytorch_they_say_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "to_pytorch", raising=False)  # ddp imports it anew
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert stopped.value.code == "this example needs PyTorch, which is not installed here: pip install torch"


def test_the_names_are_those_the_example_promises():
    """Renaming a weight would orphan every saved file."""
    net = nn.TinyTransformer(5, 4)
    assert sorted(net.state_dict()) == [
        "embedding.weight",
        "head.bias",
        "head.weight",
        *(f"layers.0.attention.W_{x}.weight" for x in "koqv"),
        *(f"layers.0.mlp.W_{x}.weight" for x in ("down", "gate", "up")),
        "layers.0.norm1.weight",
        "layers.0.norm2.weight",
        "norm.weight",
        "positions",
    ]
