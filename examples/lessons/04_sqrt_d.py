"""Lesson 4. Why divide by sqrt(d)?

The score of a query and a key is a sum of d products. If their features are independent with mean 0 and variance 1, the sum has
variance d, so scores grow as sqrt(d), and the softmax over large scores puts all weight on one key. Two experiments, each with
and without the division:
  1. random queries against 16 random keys: how large are the scores, how much of the softmax is alive?
  2. training: reverse a sequence of 12 digits, with d = 256, for 30 steps. One head, nothing else.
"""

import math
import sys

from common import Claims, Model, command_line, table, train
from picture import Picture

import numpy as np

import layers as nn
import layers.functional as F
import minigrad

DIGITS, LENGTH, KEYS = 10, 12, 16


def softmax(*scores):
    return "[" + ", ".join(f"{p:.4f}" for p in minigrad.tensor([float(s) for s in scores]).softmax(0).tolist()) + "]"


def statistics(d, draws=1000):
    """The same queries and keys without the division and with it: how the softmax looks, what gradient it lets through."""
    q, keys, direction = minigrad.randn(draws, 1, d), minigrad.randn(draws, KEYS, d), minigrad.randn(draws, 1, KEYS)
    found = {}
    for kind, scale in (("raw", 1.0), ("scaled", 1 / math.sqrt(d))):
        q = q.detach().requires_grad_()
        scores = q @ keys.transpose(-2, -1) * scale  # (draws, 1, KEYS)
        scores.retain_grad()
        weights = scores.softmax(-1)
        (weights * direction).sum().backward()
        p, at_q = weights.detach().double().numpy(), np.sort(q.grad.norm(dim=-1).numpy(), axis=None)
        squares = (p * p).sum(-1)  # |J|**2 = sum p**2 - 2 sum p**3 + (sum p**2)**2 for the softmax's derivative J = diag(p) - p p^T
        found[kind] = {
            "std of scores": scores.std().item(),
            "largest weight": p.max(-1).mean(),
            "live scores": (scores.grad.abs() > 1e-3).float().mean().item(),
            "median |J|": np.median(np.sqrt(np.maximum(squares - 2 * (p**3).sum(-1) + squares**2, 0))),
            "median |dq|": np.median(at_q),
            "mean |dq|": at_q.mean(),
            "top tenth": at_q[-draws // 10 :].sum() / at_q.sum(),
        }
    return found


class Times(nn.Module):
    """A module's output times a number."""

    def __init__(self, module, number):
        self.module, self.number = module, number

    def forward(self, x):
        return self.module(x) * self.number


def reversal(scaled, steps, d=256):
    """Train to reverse: the losses, and the share of 1000 new sequences reversed without a mistake."""
    model, backwards = Model(DIGITS, LENGTH, d), minigrad.arange(LENGTH - 1, -1, -1)
    if not scaled:
        model.attention.W_q = Times(model.attention.W_q, math.sqrt(d))  # what attention divides by

    def loss():
        ids = minigrad.randint(0, DIGITS, (32, LENGTH))
        return F.cross_entropy(model(ids)[0].reshape(-1, DIGITS), ids[:, backwards].reshape(-1))

    losses = train(model, loss, steps, lr=1e-3)
    with minigrad.no_grad():
        ids = minigrad.randint(0, DIGITS, (1000, LENGTH))
        right = model(ids)[0].argmax(-1) == ids[:, backwards]  # (1000, LENGTH)
    return losses, right.all(-1).float().mean().item()


def run(seed=42, steps=30, sizes=(4, 16, 64, 256, 1024)):
    minigrad.manual_seed(seed)
    result = {"statistics": {d: statistics(d) for d in sizes}}
    for kind in ("raw", "scaled"):
        minigrad.manual_seed(seed)
        result[kind] = reversal(kind == "scaled", steps)
    return result


def main(argv=None):
    args = command_line(__doc__, steps=30, argv=argv)
    r = run(args.seed, args.steps)
    stats = r["statistics"]
    few, many = stats[max(stats)], stats[min(stats)]  # live scores at the largest and the smallest d
    print("1. Without the division / with it. live: share of scores whose gradient is above 0.001; |J|: size of the softmax's")
    print("   derivative; |dq|: size of the gradient at the query.")
    formats = {
        "std of scores": ".2f",
        "largest weight": ".2f",
        "live scores": ".0%",
        "median |J|": ".1g",
        "median |dq|": ".1g",
        "mean |dq|": ".2f",
    }
    rows = [[d, *(f"{x['raw'][k]:{f}} / {x['scaled'][k]:{f}}" for k, f in formats.items())] for d, x in stats.items()]
    print(table(["d", *formats], rows))
    print(f"   What counts is the distance between the scores: softmax(-1, 0, 1) = {softmax(-1, 0, 1)}, softmax(-8, 0, 8) =")
    print(f"   {softmax(-8, 0, 8)}, but softmax(1000, 1000, 1000) = {softmax(1000, 1000, 1000)}.")
    print("   Without the division the typical gradient at q (the median) vanishes, but the mean grows: a few queries get nearly")
    raw, scaled = (f"{few[kind]['top tenth']:.0%}" for kind in ("raw", "scaled"))
    print(f"   all. At d = {max(stats)} a tenth of the queries has {raw} of it (with the division {scaled}).\n")
    print(f"2. Reversing {LENGTH} digits, d = 256, after {args.steps} steps:")
    rows = [[name, f"{r[k][0][-1]:.3f}", f"{r[k][1]:.3f}"] for name, k in (("without the division", "raw"), ("with it", "scaled"))]
    print(table(["", "loss", "sequences without a mistake"], rows) + "\n")
    claim = Claims()
    ratios = [x[kind]["std of scores"] / size for d, x in stats.items() for kind, size in (("raw", math.sqrt(d)), ("scaled", 1))]
    claim("scores have standard deviation sqrt(d), and 1 with the division (within 5%)", all(abs(ratio - 1) < 0.05 for ratio in ratios))
    claim("without it the live scores go from over 70% to under 15%", many["raw"]["live scores"] > 0.7 and few["raw"]["live scores"] < 0.15)
    claim("with it over 90% live at every d", all(x["scaled"]["live scores"] > 0.9 for x in stats.values()))
    claim(
        "without it the median gradient at q is under a tenth of that with it",
        few["raw"]["median |dq|"] < 0.1 * few["scaled"]["median |dq|"],
    )
    claim(
        "but its mean is larger, and has grown with d", few["raw"]["mean |dq|"] > max(many["raw"]["mean |dq|"], few["scaled"]["mean |dq|"])
    )
    claim("training with it: at least 98% of the sequences right", r["scaled"][1] >= 0.98)
    claim("training without it: at most 30%, and a loss above 0.3", r["raw"][1] <= 0.3 and r["raw"][0][-1] > 0.3)
    if args.plot:
        picture = Picture(
            "What sqrt(d) keeps alive",
            "Left: without the division fewer and fewer scores get any gradient as d grows; with it the line stays level. Right: with "
            "the division the loss is near 0 within 30 steps; without it the wide head is still learning.",
        )
        names = {"scaled": "divided by sqrt(d)", "raw": "not divided"}
        picture.lines(
            {names[k]: (list(stats), [x[k]["live scores"] for x in stats.values()]) for k in names},
            "Scores with a gradient above 0.001",
            "d, features of the head",
            "share",
            "x",
        )
        picture.lines({names[k]: (range(1, args.steps + 1), r[k][0]) for k in names}, "Learning to reverse, d = 256", "step", "loss")
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
