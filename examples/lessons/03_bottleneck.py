"""Lesson 3. What is left of the first token after 99 steps?

A recurrent network (RNN) carries all it has read in one vector, h[t] = tanh(W_x x[t] + W_h h[t-1]); attention looks back
directly. Two experiments:
  1. gradients, before any training: how much does the output at the last of 100 places change when the input k places
     before it changes? For the RNN this depends on the size of W_h, whose entries have standard deviation gain / sqrt(width).
  2. recall, after training: at the last place, name the first of T random tokens (8 kinds: a guess is right in 1 of 8).
"""

import math
import sys

from common import Claims, Model, command_line, start, table, train
from picture import Picture

import numpy as np

import layers as nn
import layers.functional as F
import minigrad

WIDTH, KINDS = 32, 8
GAINS = {"RNN, gain 1": 1.0, "RNN, W_h orthogonal": 0.0, "RNN, gain 1.5": 1.5, "RNN, gain 3": 3.0}


class RNN(nn.Module):
    """ids (b, t) -> logits (b, KINDS), read from the last h."""

    def __init__(self, gain=1.0):
        self.tokens, self.head = nn.Embedding(KINDS, WIDTH), nn.Linear(WIDTH, KINDS)
        self.W_x, self.W_h = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.apply(start)
        nn.init.normal_(self.tokens.weight)  # no positions are added, so that x has variance 1 here too
        W = self.W_h.weight.data
        self.W_h.weight.data = W * np.float32(gain) if gain else np.linalg.qr(W)[0]

    def forward(self, ids):
        return self.head(self.last(self.tokens(ids.T)))

    def last(self, x):
        h = 0.0
        for new in self.W_x(x):  # x (t, ..., WIDTH)
            h = (new if isinstance(h, float) else new + self.W_h(h)).tanh()
        return h  # (..., WIDTH)


class Attention(Model):
    """ids (b, t) -> logits (b, KINDS), read from the last place, which is the only one to ask."""

    def __init__(self, length):
        super().__init__(KINDS, length, WIDTH)

    def forward(self, ids):
        x = self.embed(ids)  # (b, t, WIDTH)
        mixed, self.weights = self.attention(x[:, -1:], context=x, return_weights=True)  # (b, 1, WIDTH), (b, 1, 1, t)
        return self.head(mixed[:, 0])

    def last(self, x):
        return self.attention(x[-1:], context=x)[0]


def gradients(make, length, draws=5):
    """|d out / d x| at distance 0, 1, ... before the end, in a random direction of out:  (draws, length)."""
    rows = []
    for _ in range(draws):
        x = minigrad.randn(length, WIDTH, dtype=minigrad.float64, requires_grad=True)  # some are below all float32 numbers
        direction = minigrad.randn(WIDTH, dtype=minigrad.float64)
        make().double().last(x).backward(direction / direction.norm())
        rows.append(np.linalg.norm(x.grad.numpy(), axis=-1)[::-1])
    return np.array(rows)


def per_step(g):
    """The factor per step of distance: the slope of a straight line through log g. (At distance 0 the input is the query too.)"""
    return math.exp(np.polyfit(np.arange(1, len(g)), np.log(g[1:]), 1)[0])


def recall(model, length, steps):
    """The share of right answers on 1000 new sequences."""

    def loss():
        ids = minigrad.randint(0, KINDS, (32, length))
        return F.cross_entropy(model(ids), ids[:, 0])

    train(model, loss, steps, lr=3e-3)
    ids = minigrad.randint(0, KINDS, (1000, length))
    return (model(ids).argmax(-1) == ids[:, 0]).float().mean().item()


def run(seed=42, steps=300, lengths=(5, 20, 80)):
    minigrad.manual_seed(seed)
    makers = {name: lambda gain=gain: RNN(gain) for name, gain in GAINS.items()} | {"attention": lambda: Attention(1)}
    curves = {name: np.exp(np.log(gradients(make, 100)).mean(0)) for name, make in makers.items()}  # geometric means
    dilution = {T: T * gradients(makers["attention"], T).mean() for T in (25, 50, 100, 200)}
    result = {"curves": curves, "dilution": dilution, "recall": {}}
    for T in lengths:
        model, shares, weights = Attention(T), [recall(RNN(), T, steps)], []
        for count in (0, steps):
            shares.append(recall(model, T, count))
            weights.append(model.weights[..., 0].mean().item())  # of the 1000 sequences that recall() ended with
        result["recall"][T] = {"RNN": shares[0], "attention": shares[2], "weight before": weights[0], "weight": weights[1]}
    return result


def text_plot(curves):
    """One line per distance; a curve's mark stands at the power of ten of its gradient."""
    marks, low, high = "1o53A", -24, 10
    print("  " + ", ".join(f"{mark} {name}" for mark, name in zip(marks, curves, strict=True)))
    print("  distance  " + "".join(f"{f'1e{p}':8}" for p in range(low, high, 4)))
    for k in (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99):
        line = ["."] + [" "] * (2 * (high - low))
        for mark, g in zip(marks, curves.values(), strict=True):
            line[min(max(round(2 * (math.log10(g[k]) - low)), 0), len(line) - 1)] = mark
        print(f"  {k:8}  " + "".join(line).rstrip())


def main(argv=None):
    args = command_line(__doc__, steps=300, argv=argv)
    r = run(args.seed, args.steps)
    curves, factor = r["curves"], {name: per_step(g) for name, g in r["curves"].items()}
    print("1. Gradient of the last output with respect to the input at a distance, before training:")
    text_plot(curves)
    rows = [[name, *(f"{g[k]:.1e}" for k in (0, 10, 50, 99)), f"{factor[name]:.3f}"] for name, g in curves.items()]
    print("\n" + table(["", "distance 0", "10", "50", "99", "factor per step"], rows))
    print("  The RNN multiplies by about the same factor at each step. Below 1 the gradient vanishes, above 1 it explodes.")
    print("  Attention has no such factor. But it spreads its weight over all T tokens, so each gets about 1/T of it:")
    print(table(["T", *map(str, r["dilution"])], [["T x mean gradient", *(f"{v:.2f}" for v in r["dilution"].values())]]))
    print(f"\n2. Recall of the first of T tokens after {args.steps} steps of training (a guess: 0.125):")
    rows = [[T, *(f"{v:.3f}" for v in x.values())] for T, x in r["recall"].items()]
    print(table(["T", "RNN", "attention", "weight on the first token before training", "and after"], rows) + "\n")
    claim, vanishing, slope = Claims(), ["RNN, gain 1", "RNN, W_h orthogonal"], abs(math.log(factor["attention"]))
    claim("usual RNN: the gradient falls by more than a quarter at each step", all(math.log(factor[k]) < -0.3 for k in vanishing))
    claim("gain 3: it grows instead", factor["RNN, gain 3"] > 1)
    claim("attention: less than 2% change per step, so flat in the distance", slope < 0.02)
    claim("but diluted: T x gradient stays between 0.7 and 2.5 while T grows eightfold", all(0.7 < v < 2.5 for v in r["dilution"].values()))
    for T, x in r["recall"].items():
        if T <= 5:
            claim(f"T = {T}: the RNN recalls (>= 95%)", x["RNN"] >= 0.95)
        else:
            claim(f"T = {T}: the RNN guesses (<= 25%), attention recalls (>= 98%)", x["RNN"] <= 0.25 and x["attention"] >= 0.98)
            claim(f"T = {T}: training has undone the dilution (weight > 0.5)", x["weight"] > 0.5)
    if args.plot:
        picture = Picture(
            "How far back does the gradient reach?",
            "Look at the slopes on this logarithmic axis: an RNN's gradient changes by a constant factor per step, so it is a straight "
            "line, down for the usual gains and up for gain 3. Attention is level: the 100th token back is as near as the first. It is "
            "level at about 1/100, since before training its weight is spread over 100 tokens.",
        )
        shown = {k: (range(100), g) for k, g in curves.items() if k != "RNN, gain 1.5"}
        picture.lines(shown, "", "distance from the output, in tokens", "|d output / d input|", "y", wide=700, high=320)
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
