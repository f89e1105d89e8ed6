"""The benchmark compares programs that do the same work: the losses of all installed peers agree. No times are asserted."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "benchmark.py"
MODULES = {
    "minigrad": "minigrad",
    "functions": "minigrad",
    "steps": "minigrad",
    "hand": "minigrad",
    "torch": "torch",
    "fused": "torch",
    "layer": "torch",
    "jax": "jax",
    "autograd": "autograd",
}
MODULES["mygrad"] = "mygrad"  # torch.compile takes too long for a test; the script itself compares its losses


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def size(benchmark):
    return benchmark.Size(3, 5, 14, 7, 11)


def losses(benchmark, peer, size, steps=7):
    step = benchmark.PEERS[peer][1](size)
    return [float(step()) for _ in range(steps)]


def by_hand(benchmark, size):
    """The first loss, computed with loops over sequences, heads and tokens."""
    p, x, y, _ = benchmark.problem(size)
    p = {name: w.astype(np.float64) for name, w in p.items()}
    b, t, d, h, _ = size
    total = 0.0
    for i in range(b):
        z = p["tokens"][x[i]] + p["places"]
        q, k, v = (z @ p[name].T for name in "qkv")
        a = np.zeros((t, d))
        for head in np.split(np.arange(d), h):
            for j in range(t):
                fit = np.exp(k[: j + 1, head] @ q[j, head] / np.sqrt(d / h))
                a[j, head] = fit / fit.sum() @ v[: j + 1, head]
        logits = (z + a @ p["o"].T) @ p["head"].T + p["bias"]
        targets = y.reshape(b, t)[i]
        total += sum(np.log(np.exp(row).sum()) - row[target] for row, target in zip(logits, targets, strict=True))
    return total / (b * t)


@pytest.mark.filterwarnings("ignore")  # other people's
@pytest.mark.parametrize("peer", MODULES)
def test_every_peer_does_the_same_work(peer, benchmark, size):
    pytest.importorskip(MODULES[peer])
    ours = losses(benchmark, "minigrad", size)
    assert abs(ours[0] - by_hand(benchmark, size)) < 1e-5
    assert len({round(loss, 4) for loss in ours}) == len(ours)  # it learns
    assert np.allclose(losses(benchmark, peer, size), ours, rtol=1e-5)


def test_the_floor_is_all_the_products(benchmark, size, monkeypatch):
    step, count = benchmark.PEERS["floor"][1](size), 0

    class Counting:
        @staticmethod
        def matmul(a, b, out):
            nonlocal count
            count += np.matmul(a, b, out=out).size * a.shape[-1]

    monkeypatch.setattr(benchmark, "np", Counting)
    step()
    b, t, d, _, v = size
    assert count == 3 * (4 * b * t * d * d + b * t * d * v + 2 * b * t * t * d)  # forward, and twice as many backward


def run(*arguments):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=120, env=environment)


def test_the_table():
    peers = "minigrad,steps,floor"
    done = run("--sizes", "1", "--peers", peers, "--rounds", "2", "--turn", "0.001", "--growth", "256")
    assert done.returncode == 0, done.stderr
    assert "minigrad, four steps" in done.stdout
    assert "matrix products alone" in done.stdout
    assert done.stdout.count("time ~ tokens**") == 2
    assert done.stdout.count("memory ~ depth**") == 1


def test_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("--sizes", "1", "--peers", "minigrad", "--rounds", "1", "--turn", "0.001", "--plot", str(tmp_path / "speed.svg"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "speed.svg").read_text().count("minigrad") >= 1


def test_an_absent_peer_is_left_out_and_a_wrong_one_is_an_error(benchmark, size, monkeypatch, capsys):
    class Now:  # runs in this process what would run in another
        def submit(self, function, *arguments):
            try:
                result, error = function(*arguments), None
            except ImportError as raised:
                result, error = None, raised
            return type("Future", (), {"result": lambda _: self.give(result, error)})()

        @staticmethod
        def give(result, error):
            if error:
                raise error
            return result

        def shutdown(self):
            pass

    def missing(size):
        raise ModuleNotFoundError("No module named 'lib'")

    monkeypatch.setitem(benchmark.PEERS, "torch", ("PyTorch eager", missing))
    ratios = benchmark.compare(size, {"minigrad": Now(), "torch": Now()}, 1, 0.0)
    assert ratios == {"minigrad": 1.0}
    assert "without PyTorch eager: ModuleNotFoundError" in capsys.readouterr().err
    monkeypatch.setitem(benchmark.PEERS, "jax", ("JAX jit", lambda size: lambda: 2.5))
    with pytest.raises(SystemExit, match="JAX jit computes something else"):
        benchmark.compare(size, {"minigrad": Now(), "jax": Now()}, 1, 0.0)
