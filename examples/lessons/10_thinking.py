"""Lesson 10. Who does the thinking?

Attention mixes what is there. Over one token there is nothing to mix: the softmax of a single score is 1 whatever the score,
and what is left, W_o W_v x, is linear. Two experiments:
  1. is f linear, f(2 a + 3 b) = 2 f(a) + 3 f(b)? f is untrained attention on one token, then (the control) on two;
  2. a sequence of one token, a point (x, y) drawn from the normal distribution: do x and y have different signs? A linear map
     can only divide the plane by one straight line. Models: attention with a residual, x + attention(x); and the same followed
     by an MLP, x + SwiGLU(x), where SwiGLU(x) = W_down(silu(W_gate x) * W_up x) and silu(z) = z / (1 + e^-z).
"""

import sys

from common import Claims, beside, command_line, heat_map, start, table, train
from picture import Picture

import layers as nn
import layers.functional as F
import minigrad

D_MODEL = 16
GRID = [-2.75 + 0.5 * i for i in range(12)]  # where the picture looks at the plane


@minigrad.no_grad()
def nonlinearity(tokens, seed):
    """The largest |f(2 a + 3 b) - 2 f(a) - 3 f(b)| and, to compare, the largest |f(2 a + 3 b)|, with 16 digits."""
    minigrad.manual_seed(seed)
    f = nn.MultiHeadAttention(D_MODEL, 1, causal=False).apply(start).double()
    a, b = minigrad.randn(2, 100, tokens, D_MODEL, dtype="float64")
    return (f(2 * a + 3 * b) - 2 * f(a) - 3 * f(b)).abs().max().item(), f(2 * a + 3 * b).abs().max().item()


class Model(nn.Module):
    """points (b, 2) -> logits (b, 2)."""

    def __init__(self, mlp):
        self.read, self.head = nn.Linear(2, D_MODEL), nn.Linear(D_MODEL, 2)
        self.attention, self.mlp = nn.MultiHeadAttention(D_MODEL, 1), nn.SwiGLU(D_MODEL, 2 * D_MODEL) if mlp else None
        self.apply(start)

    def forward(self, points):
        x = self.read(points).unsqueeze(1)  # (b, 1, d): a sequence of one token
        x = x + self.attention(x)
        x = x + self.mlp(x) if self.mlp else x
        return self.head(x)[:, 0]


def different_signs(mlp, seed, steps):
    minigrad.manual_seed(seed)
    model = Model(mlp)

    def batch(count):
        points = minigrad.randn(count, 2)
        return points, (points[:, 0] * points[:, 1] < 0).long()

    def loss():
        points, labels = batch(64)
        return F.cross_entropy(model(points), labels)

    train(model, loss, steps, lr=5e-3)
    with minigrad.no_grad():
        points, labels = batch(2000)
        acc = (model(points).argmax(-1) == labels).float().mean().item()
        plane = minigrad.tensor([[x, y] for y in reversed(GRID) for x in GRID])  # y upwards, as on paper
        p = model(plane).softmax(-1)[:, 1].reshape(len(GRID), len(GRID)).numpy()
    return {"acc": acc, "parameters": sum(p.numel() for p in model.parameters()), "plane": p}


def run(seed=0, steps=300):
    models = {"attention": False, "attention + SwiGLU": True}
    return {
        "linear": {tokens: nonlinearity(tokens, seed) for tokens in (1, 2)},
        "models": {name: different_signs(mlp, seed, steps) for name, mlp in models.items()},
    }


def main(argv=None):
    args = command_line(__doc__, steps=300, argv=argv)
    r = run(args.seed, args.steps)
    print("1. Is attention linear?")
    rows = [[tokens, *(f"{v:.1e}" for v in x)] for tokens, x in r["linear"].items()]
    print(table(["tokens", "largest |f(2 a + 3 b) - 2 f(a) - 3 f(b)|", "largest |f(2 a + 3 b)|"], rows))
    print("\nSo it isn't true in general that attention makes nothing new: with two tokens it isn't linear (lesson 6: two heads do XOR).")
    print("But what a token needs to work out from itself alone, attention can't.\n")
    print(f"2. Different signs? After {args.steps} steps, on 2000 new points:")
    print(table(["model", "parameters", "right answers"], [[k, x["parameters"], f"{x['acc']:.3f}"] for k, x in r["models"].items()]))
    print('\nWhat the models say over the plane, x to the right and y upwards, from -2.75 to 2.75: the probability of "different".')
    signs = ["-" if v < 0 else "+" for v in GRID]
    axes = signs[::-1], signs
    print(beside(*(f"  {name}\n{heat_map(x['plane'], *axes)}" for name, x in r["models"].items())) + "\n")
    (one, _), (two, _) = r["linear"].values()
    plain, mlp = r["models"].values()
    claim = Claims()
    claim("over one token attention is linear, to rounding", one < 1e-12)
    claim("over two tokens it is not (> 0.1)", two > 0.1)
    claim("one token: attention with a residual doesn't tell the signs (<= 70%)", plain["acc"] <= 0.7)
    claim("one token: with SwiGLU it does (>= 90%)", mlp["acc"] >= 0.9)
    if args.plot:
        picture = Picture(
            "One token, a point (x, y): do x and y have different signs?",
            "A square is the probability of yes, x grows to the right, y upwards. Look at the corners: yes is right at the top left "
            "and the bottom right, no in the other two. Attention alone divides the plane by one straight line, and stays near 0.5.",
        )
        for name, x in r["models"].items():
            picture.heat_map(x["plane"], *axes, f"{name}: {x['acc']:.0%} right", cell=28)
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
