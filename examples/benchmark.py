"""How fast is minigrad? The same training step in minigrad and in those of its peers that are installed.

The step: embedding and positions, causal multi-head attention, residual, linear head, cross-entropy, backward, Adam; in float32,
from the same weights on the same tokens. Each framework has a process of its own, and they take turns of some steps each, so that
what else the machine does meets all alike. Ratios are taken within a round of turns; the table shows their median. The losses are
compared first: who computes something else is not compared at all. With one thread the clock is the processor time of the
process, which other programs don't lengthen; with more it is the clock on the wall. The floor is the step's matrix products alone,
in NumPy, into arrays that stand ready (fused attention may leave out products that the mask hides).

    python examples/benchmark.py                              the table: some minutes
    python examples/benchmark.py --sizes 1,2 --peers minigrad,torch
    python examples/benchmark.py --growth --plot speed.png    and how time and memory grow with tokens and with depth
"""

import argparse
import functools
import importlib
import math
import multiprocessing
import os
import signal
import statistics
import sys
import time
import tracemalloc
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import command
import numpy as np

LR, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8
STEPS_COMPARED, TOLERANCE = 5, 1e-4
Step = Callable[[], Any]  # one training step; returns the loss


Size = namedtuple("Size", "sequences tokens d_model heads vocabulary")
SHAPES = [(1, 4, 8, 2, 10), (16, 8, 32, 2, 16), (32, 16, 32, 4, 16), (64, 16, 64, 4, 32), (32, 64, 128, 4, 64), (8, 256, 256, 8, 64)]
SIZES = [Size(*shape) for shape in SHAPES]


def problem(size: Size) -> tuple[dict[str, Any], Any, Any, Any]:
    """Weights, tokens (b, t), targets (b * t) and the causal mask (t, t), the same for everyone."""
    rng, (b, t, d, _, v) = np.random.default_rng(0), size
    shapes = {"tokens": (v, d), "places": (t, d), "q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "head": (v, d), "bias": (v,)}
    weights = {name: (rng.standard_normal(shape) / math.sqrt(d)).astype(np.float32) for name, shape in shapes.items()}
    return weights, rng.integers(0, v, (b, t)), rng.integers(0, v, b * t), np.triu(np.ones((t, t), bool), 1)


def torch_step(size: Size, library: str, attention: str, compiled: bool = False) -> Step:
    """The step in PyTorch's words, which are minigrad's too. attention: "steps", "fused", or the library's "layer"."""
    torch = importlib.import_module(library)
    F = importlib.import_module("layers.functional" if library == "minigrad" else "torch.nn.functional")
    (b, t, d, h, v_size), (weights, *data) = size, problem(size)
    p = {name: torch.tensor(weight, requires_grad=True) for name, weight in weights.items()}
    x, y, hidden = (torch.tensor(array) for array in data)

    def attend(z: Any) -> Any:  # (b, t, d) -> (b, t, d)
        q, k, v = (F.linear(z, p[name]).view(b, t, h, d // h).transpose(1, 2) for name in "qkv")  # (b, h, t, d / h)
        if attention == "fused":
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1) / math.sqrt(d // h)).masked_fill(hidden, -math.inf)  # (b, h, t, t)
            a = torch.softmax(scores, dim=-1) @ v
        return F.linear(a.transpose(1, 2).reshape(b, t, d), p["o"])

    if attention == "layer":
        maps = {name: p.pop(name).detach() for name in "qkvo"}
        if library == "minigrad":
            layer = attend = importlib.import_module("layers").MultiHeadAttention(d, h)
            layer.load_state_dict({f"W_{name}.weight": weight for name, weight in maps.items()})
        else:
            layer = torch.nn.MultiheadAttention(d, h, bias=False, batch_first=True)
            attend = functools.partial(its_output, layer, hidden)
            layer.load_state_dict({"in_proj_weight": torch.cat([maps[name] for name in "qkv"]), "out_proj.weight": maps["o"]})
        p |= dict(layer.named_parameters())
    optimizer = torch.optim.Adam(p.values(), lr=LR, betas=(BETA1, BETA2), eps=EPS)

    def step() -> Any:
        z = F.embedding(x, p["tokens"]) + p["places"]  # (b, t, d)
        z = z + attend(z)
        loss = F.cross_entropy(F.linear(z, p["head"], p["bias"]).reshape(-1, v_size), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch.compile(step) if compiled else step


def its_output(layer: Any, hidden: Any, z: Any) -> Any:
    return layer(z, z, z, attn_mask=hidden, is_causal=True, need_weights=False)[0]


def loss_in(like_np: Any, softmax: Any, log_softmax: Any, size: Size, data: Any, p: Any) -> Any:
    """The loss in NumPy's words, which JAX, autograd and MyGrad speak."""
    (b, t, d, h, v_size), (x, y, hidden) = size, data
    z = p["tokens"][x] + p["places"]  # (b, t, d)
    q, k, v = (like_np.swapaxes(like_np.reshape(z @ p[name].T, (b, t, h, d // h)), 1, 2) for name in "qkv")
    scores = q @ like_np.swapaxes(k, 2, 3) / np.float32(math.sqrt(d // h))  # (b, h, t, t)
    a = softmax(like_np.where(hidden, np.float32(-np.inf), scores)) @ v
    z = z + like_np.reshape(like_np.swapaxes(a, 1, 2), (b, t, d)) @ p["o"].T
    log_p = log_softmax(like_np.reshape(z @ p["head"].T + p["bias"], (-1, v_size)))
    return -like_np.mean(log_p[np.arange(len(y)), y])


def numpy_step(weights: Any, loss_and_gradients: Callable[[Any], Any], compiled: Any = lambda f: f, sqrt: Any = np.sqrt) -> Step:
    state, count = {name: (weight, np.zeros_like(weight), np.zeros_like(weight)) for name, weight in weights.items()}, 0.0

    @compiled
    def update(state: Any, t: Any) -> Any:
        loss, gradients = loss_and_gradients({name: p for name, (p, _, _) in state.items()})
        for name, (p, mean, square) in state.items():  # Adam
            g = gradients[name]
            mean, square = BETA1 * mean + (1 - BETA1) * g, BETA2 * square + (1 - BETA2) * g * g
            p = p - LR / (1 - BETA1**t) * mean / (sqrt(square) / (1 - BETA2**t) ** 0.5 + EPS)
            state = {**state, name: (p, mean, square)}
        return loss, state

    def step() -> Any:
        nonlocal state, count
        count += 1.0
        loss, state = update(state, count)
        return loss

    return step


def jax_step(size: Size) -> Step:
    import jax

    weights, *data = problem(size)
    loss_of = functools.partial(loss_in, jax.numpy, jax.nn.softmax, jax.nn.log_softmax, size, data)
    return numpy_step(weights, jax.value_and_grad(loss_of), jax.jit, jax.numpy.sqrt)


def autograd_step(size: Size) -> Step:
    import autograd
    import autograd.numpy as anp

    def log_softmax(x: Any) -> Any:
        x = x - anp.max(x, axis=-1, keepdims=True)
        return x - anp.log(anp.sum(anp.exp(x), axis=-1, keepdims=True))

    weights, *data = problem(size)
    loss_of = functools.partial(loss_in, anp, lambda x: anp.exp(log_softmax(x)), log_softmax, size, data)
    return numpy_step(weights, autograd.value_and_grad(loss_of))


def mygrad_step(size: Size) -> Step:
    import mygrad
    from mygrad.nnet.activations import logsoftmax, softmax

    weights, *data = problem(size)

    def loss_and_gradients(arrays: Any) -> tuple[float, Any]:
        p = {name: mygrad.tensor(array) for name, array in arrays.items()}
        loss = loss_in(mygrad, softmax, logsoftmax, size, data, p)
        loss.backward()
        return loss.item(), {name: tensor.grad for name, tensor in p.items()}

    return numpy_step(weights, loss_and_gradients)


def by_hand_step(size: Size) -> Step:
    """The step as a chain of minigrad's ops, called one by one and then backwards by hand: what is left without a graph."""
    from minigrad import Tensor, ops, optim
    from minigrad.attention import multi_head

    (b, t, _, h, v), (weights, x, y, _) = size, problem(size)

    def loss_and_gradients(p: Any) -> tuple[Any, Any]:
        tokens, d_table = ops.take(p["tokens"], x)
        z = tokens + p["places"]
        mixed, dz, *d_maps = multi_head(z, *[p[name] for name in "qkvo"], num_heads=h, causal=True)
        logits, d_out, d_head, d_bias = ops.linear(z + mixed, p["head"], p["bias"])
        loss, d_logits = ops.cross_entropy(logits.reshape(-1, v), y, divisor=float(b * t))

        g = d_logits(np.ones((), np.float32)).reshape(logits.shape)
        gradients, g = {"head": d_head(g), "bias": d_bias(g)}, d_out(g)
        gradients |= {name: d_map(g) for name, d_map in zip("qkvo", d_maps, strict=True)}
        g = g + dz(g)
        return loss, {**gradients, "places": np.add.reduce(g), "tokens": d_table(g)}

    parameters = {name: Tensor(weight, requires_grad=True) for name, weight in weights.items()}
    optimizer = optim.Adam(parameters.values(), lr=LR, betas=(BETA1, BETA2), eps=EPS)

    def step() -> Any:
        loss, gradients = loss_and_gradients({name: p.data for name, p in parameters.items()})
        for name, p in parameters.items():
            p.grad = Tensor(gradients[name])
        optimizer.step()
        return loss

    return step


def floor_step(size: Size) -> Step:
    (b, t, d, h, v), ready = size, lambda *shape: np.full(shape, 0, np.float32)
    x, z, w, logits, head = ready(b * t, d), ready(b * t, d), ready(d, d), ready(b * t, v), ready(v, d)
    q, k, a, scores = ready(b, h, t, d // h), ready(b, h, t, d // h), ready(b, h, t, d // h), ready(b, h, t, t)
    products = [(x, w.T, z), (z, w, x), (z.T, x, w)] * 4  # of each projection: output, gradients of input and weight
    products += [(x, head.T, logits), (logits, head, z), (logits.T, x, head)]
    products += [(q, k.swapaxes(2, 3), scores), (scores, k, a), (scores.swapaxes(2, 3), q, a)] * 2  # Q K^T, P V, and four backward

    def step() -> Any:
        for left, right, out in products:
            np.matmul(left, right, out=out)
        return math.nan

    return step


PEERS: dict[str, tuple[str, Callable[[Size], Step]]] = {
    "minigrad": ("minigrad, its layer", functools.partial(torch_step, library="minigrad", attention="layer")),
    "compiled": ("minigrad, compiled", functools.partial(torch_step, library="minigrad", attention="layer", compiled=True)),
    "functions": ("minigrad, fused attention", functools.partial(torch_step, library="minigrad", attention="fused")),
    "steps": ("minigrad, four steps", functools.partial(torch_step, library="minigrad", attention="steps")),
    "hand": ("its ops by hand, no graph", by_hand_step),
    "torch": ("PyTorch eager", functools.partial(torch_step, library="torch", attention="steps")),
    "fused": ("PyTorch, fused attention", functools.partial(torch_step, library="torch", attention="fused")),
    "layer": ("PyTorch, its layer", functools.partial(torch_step, library="torch", attention="layer")),
    "compile": ("torch.compile", functools.partial(torch_step, library="torch", attention="steps", compiled=True)),
    "jax": ("JAX jit", jax_step),
    "autograd": ("HIPS autograd", autograd_step),
    "mygrad": ("MyGrad", mygrad_step),
    "floor": ("matrix products alone", floor_step),
}

running: dict[str, Step] = {}  # in the process of a peer: its step


def first_losses(peer: str, size: Size) -> list[float]:
    running["step"] = PEERS[peer][1](size)
    return [float(running["step"]()) for _ in range(STEPS_COMPARED)]


def seconds_for_one(count: int, step: Step | None = None) -> float:
    step = step or running["step"]
    clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    float(step())  # the caches hold another's numbers
    start = clock()
    for _ in range(count):
        loss = step()
    float(loss)  # JAX computes in the background until someone asks
    return (clock() - start) / count


def grown(size: Size, depth: int, fused: bool) -> tuple[float, float]:
    """Milliseconds, and peak MiB of all arrays, of one forward and backward pass through so many attention layers."""
    import layers as nn
    import minigrad

    layers, x = [nn.MultiHeadAttention(size.d_model, size.heads) for _ in range(depth)], minigrad.randn(*size[:3])

    def once() -> float:
        z = x
        for layer in layers:
            z = z + (layer(z) if fused else layer(z, return_weights=True)[0])
        z.sum().backward()
        return math.nan

    milliseconds = 1e3 * min(seconds_for_one(1, once) for _ in range(3))
    tracemalloc.start()  # NumPy tells it of its arrays
    once()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return milliseconds, peak


def compare(size: Size, pools: dict[str, ProcessPoolExecutor], rounds: int, turn: float) -> dict[str, float]:
    """How many times as fast as PyTorch eager each peer is (as the first, where PyTorch is missing); printed."""
    losses: dict[str, list[float]] = {}
    for peer in list(pools):
        try:
            losses[peer] = pools[peer].submit(first_losses, peer, size).result()
        except Exception as error:  # not installed, no compiler: the others go on
            print(f"without {PEERS[peer][0]}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
            pools.pop(peer).shutdown()
    base = "torch" if "torch" in losses else next((peer for peer in losses if peer != "floor"), "floor")
    for peer in losses:
        if peer != "floor" and not np.allclose(losses[peer], losses[base], rtol=TOLERANCE, atol=0):
            raise SystemExit(f"{PEERS[peer][0]} computes something else at {tuple(size)}: {losses[peer]}, not {losses[base]}")
    counts = {peer: max(1, round(turn / pools[peer].submit(seconds_for_one, 1).result())) for peer in losses}
    times = [{peer: pools[peer].submit(seconds_for_one, counts[peer]).result() for peer in losses} for _ in range(rounds)]
    ratios = {peer: statistics.median(one[base] / one[peer] for one in times) for peer in losses}
    print(f"\n{', '.join(Size._fields)} = {tuple(size)};  {PEERS[base][0]} = 1, higher is faster")
    for peer, ratio in ratios.items():
        print(f"  {PEERS[peer][0]:26}{ratio:7.2f}{1e3 * statistics.median(one[peer] for one in times):12.3f} ms", flush=True)
    return ratios


def growth(pool: ProcessPoolExecutor, largest: int) -> dict[tuple[str, str], list[tuple[float, float, float]]]:
    """(what grows, how) -> points (how much, milliseconds, MiB); printed with the exponents of the upper half of the points."""
    tokens = [2**i for i in range(6, largest.bit_length())]
    lines: dict[tuple[str, str], list[Any]] = {
        ("tokens", "fused attention"): [(t, Size(1, t, 64, 1, 0), 1, True) for t in tokens],
        ("tokens", "four steps"): [(t, Size(1, t, 64, 1, 0), 1, False) for t in tokens if t <= 4096],  # 8192 would take 2 GiB
        ("depth", "fused attention"): [(depth, Size(8, 64, 64, 4, 0), depth, True) for depth in (1, 2, 4, 8, 16, 32)],
    }
    points = {line: [(n, *pool.submit(grown, *case).result()) for n, *case in cases] for line, cases in lines.items()}
    for (what, how), line in points.items():
        print(f"\nForward and backward of attention layers, {how}, against {what} (in brackets: the exponent since the line before):")
        n, *costs = np.log(line).T  # cost = c * n**e is a line of slope e through the logarithms
        slopes = [["", *(f"({e:.2f})" for e in np.diff(cost) / np.diff(n))] for cost in costs]
        for (x, milliseconds, peak), of_time, of_memory in zip(line, *slopes, strict=True):
            print(f"  {x:6}{milliseconds:12.2f} ms {of_time:8}{peak:12.2f} MiB {of_memory}")
        half = len(n) // 2
        time_e, memory_e = (np.polyfit(n[half:], cost[half:], 1)[0] for cost in costs)
        print(f"  fitted from {line[half][0]} on: time ~ {what}**{time_e:.2f}, memory ~ {what}**{memory_e:.2f}", flush=True)
    return points


def plot(path: str, ratios: dict[Size, dict[str, float]], points: dict[tuple[str, str], Any]) -> None:
    from matplotlib import colormaps, rcParams
    from matplotlib.figure import Figure

    rcParams["svg.fonttype"] = "none"  # text stays text
    figure = Figure(figsize=(10, 12 if points else 4), layout="constrained")
    speed, *others = figure.subplots(3 if points else 1, 1, squeeze=False)[:, 0]
    for i, peer in enumerate(dict.fromkeys(peer for ratio in ratios.values() for peer in ratio)):
        speeds, style = [ratio.get(peer, math.nan) for ratio in ratios.values()], "o-" if "minigrad" in PEERS[peer][0] else ".--"
        speed.semilogy(speeds, style, label=PEERS[peer][0], color=colormaps["tab20"](i))
    speed.set_xticks(range(len(ratios)), [", ".join(map(str, size)) for size in ratios], rotation=15)
    speed.set(ylabel="speed (PyTorch eager = 1)", title=f"One training step: {', '.join(Size._fields)}")
    for (what, how), line in points.items():
        axis, (n, milliseconds, peak) = others[what == "depth"], zip(*line, strict=True)
        (drawn,) = axis.loglog(n, milliseconds, "o-", label=f"milliseconds, {how}")
        axis.loglog(n, peak, "s:", color=drawn.get_color(), label=f"MiB, {how}")
        axis.set(xlabel=what, title=f"Forward and backward of attention layers against {what}")
    for axis in (axis for axis in (speed, *others) if axis.lines):
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))  # beside it: no line is covered
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,2,3,4,5,6", help="which of the six sizes; '' for none (default: all)")
    parser.add_argument("--peers", default=",".join(PEERS), help="whom to compare: " + "; ".join(f"{k}: {v[0]}" for k, v in PEERS.items()))
    parser.add_argument("--threads", type=command.count, default=1, help="for each framework (default: 1)")
    parser.add_argument("--rounds", type=command.count, default=15, help="turns of each peer (default: 15)")
    parser.add_argument("--turn", type=command.positive, default=0.2, help="seconds of a turn, about (default: 0.2)")
    several = command.number(int, "at least 256: a line needs more than a point or two", lambda n: n >= 256)
    parser.add_argument("--growth", type=several, nargs="?", const=8192, metavar="TOKENS", help="measure growth too, up to 8192 tokens")
    parser.add_argument("--plot", type=command.picture, metavar="FILE", help="draw what was measured (needs matplotlib)")
    options = parser.parse_args()
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)  # read when a process imports the library
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={options.threads > 1} intra_op_parallelism_threads={options.threads}"
    numbers, peers = ([part for part in text.split(",") if part] for text in (options.sizes, options.peers))
    for what, given, known in (("--sizes", numbers, [str(i + 1) for i in range(len(SIZES))]), ("--peers", peers, list(PEERS))):
        if not set(given) <= set(known):
            parser.error(f"{what}: some of {', '.join(known)}, with commas; got {','.join(given)}")
    if numbers and not peers:
        parser.error("--peers: nobody to compare; for growth alone write --sizes '' --growth")
    context, at_ctrl_c = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_DFL)  # the peers go without a word
    spawn = functools.partial(ProcessPoolExecutor, 1, context, initializer=signal.signal, initargs=at_ctrl_c)
    pools = {peer: spawn() for peer in peers}
    sizes = [SIZES[int(number) - 1] for number in numbers]
    ratios = {size: compare(size, pools, options.rounds, options.turn) for size in sizes}
    points = growth(spawn(), options.growth) if options.growth else {}
    if options.plot:
        plot(options.plot, ratios, points)


if __name__ == "__main__":
    main()
