"""Lesson 8. Does attention know where a token stands?

A query sums over all keys, and a sum has no order. So without positions a shuffle of the tokens only shuffles the outputs:
我 gets the same vector in 我 吃 苹果 (I eat an apple) and in 苹果 吃 我 (an apple eats me). Three experiments, without
positions (the control), with learned ones (a vector for each place, trained like any weight), and with sinusoidal ones (the
sines and cosines of i / 10000^(k/d) for k = 0, 2, 4, ..., never trained; Vaswani et al. 2017, section 3.5):
  1. the output at 我 in both sentences, before any training;
  2. any shuffle: outputs of the shuffled sequence against the shuffled outputs, before any training;
  3. after training on "reverse": answer 12 random digits in the opposite order.
"""

import sys

from common import Claims, Model, beside, command_line, heat_map, table, train
from picture import Picture

import layers as nn
import layers.functional as F
import minigrad

KINDS, T, D_MODEL = 10, 12, 32
SENTENCES = [["我", "吃", "苹果"], ["苹果", "吃", "我"]]


def sinusoids(length, d):
    """sin(i w) and cos(i w) for d/2 frequencies w, from 1 down to almost 1/10000:  -> (length, d)."""
    angles = minigrad.arange(length).unsqueeze(1) / 10000.0 ** (minigrad.arange(0, d, 2) / d)  # (length, d/2)
    return minigrad.stack([angles.sin(), angles.cos()], -1).reshape(length, d)


class Fixed(nn.Module):
    """Position vectors that are not trained."""

    def __init__(self, weight):
        self.register_buffer("weight", weight)


def fresh(kind, seed):
    minigrad.manual_seed(seed)
    model = Model(KINDS, T, D_MODEL)
    if kind == "none":
        model.positions = Fixed(minigrad.zeros(T, D_MODEL))
    elif kind == "sinusoidal":
        model.positions = Fixed(sinusoids(T, D_MODEL))
    return model


@minigrad.no_grad()
def at_me(model):
    """The first four numbers that attention returns at 我, for both sentences."""
    ids = [minigrad.tensor([SENTENCES[0].index(word) for word in words]) for words in SENTENCES]
    return [model.attention(model.embed(i))[words.index("我"), :4].tolist() for i, words in zip(ids, SENTENCES, strict=True)]


@minigrad.no_grad()
def shuffle_gap(model):
    """Outputs of shuffled sequences less the shuffled outputs: the largest difference, computed with 16 digits."""
    ids, order = minigrad.randint(0, KINDS, (100, T)), minigrad.randperm(T)
    return (model.double()(ids[:, order])[0] - model(ids)[0][:, order]).abs().max().item()


def likeness(model):
    """The mean cosine between the vectors of neighbouring places: 1 if they point the same way, 0 at right angles."""
    p = model.positions.weight.detach()
    p = p / p.norm(dim=-1, keepdim=True).clamp(min=1e-9)
    return (p[1:] * p[:-1]).sum(-1).mean().item()


def reverse(kind, seed, steps):
    model, source = fresh(kind, seed), list(range(T - 1, -1, -1))

    def loss():
        ids = minigrad.randint(0, KINDS, (64, T))
        return F.cross_entropy(model(ids)[0].reshape(-1, KINDS), ids[:, source].reshape(-1))

    train(model, loss, steps, lr=3e-3)
    with minigrad.no_grad():
        ids = minigrad.randint(0, KINDS, (1000, T))
        logits, weights = model(ids)
    answers = logits.argmax(-1)
    right = answers == ids[:, source]
    return {
        "exact": right.all(-1).float().mean().item(),
        "acc": right.float().mean().item(),
        "mirror": weights[:, 0, range(T), source].mean().item(),
        "map": weights.mean(0)[0].numpy(),
        "example": (ids[0].tolist(), answers[0].tolist()),
    }


def run(seed=0, steps=300):
    def both(kind):
        model = fresh(kind, seed)
        untrained = {"likeness": likeness(model), "me": at_me(model), "gap": shuffle_gap(model)}
        return untrained | reverse(kind, seed, steps)

    return {kind: both(kind) for kind in ("none", "learned", "sinusoidal")}


def main(argv=None):
    args = command_line(__doc__, steps=300, argv=argv)
    r = run(args.seed, args.steps)
    print("1. What attention returns at 我 (the first four of its numbers):")
    rows = [[kind, "".join(SENTENCES[i]), *(f"{v:.4f}" for v in x["me"][i])] for kind, x in r.items() for i in (0, 1)]
    print(table(["positions", "sentence", "", "", "", ""], rows))
    print("\n2. Shuffled sequences, outputs of the whole model:")
    print(table(["positions", "largest difference from the shuffled outputs"], [[kind, f"{x['gap']:.1e}"] for kind, x in r.items()]))
    print(f"\n3. Reverse, after {args.steps} steps, on 1000 new sequences:")
    rows = [[kind, *(f"{x[k]:.3f}" for k in ("exact", "acc", "mirror", "likeness"))] for kind, x in r.items()]
    print(table(["positions", "sequences all right", "digits right", "weight on the mirrored place", "cosine of neighbours"], rows))
    print("\nOne of them. Without positions, places with the same digit get the same answer: nothing tells them apart.")
    rows = [[kind, *(" ".join(map(str, line)) for line in x["example"])] for kind, x in r.items()]
    print(table(["positions", "in", "out"], rows))
    names = [str(i) for i in range(T)]
    print("\n" + beside(*(f"  positions: {kind}\n{heat_map(x['map'], names, names)}" for kind, x in r.items())))
    print("\nThe sinusoids of neighbouring places are much alike (cosine near 1), so there the weight spills over to the neighbours.\n")
    none, others = r["none"], [r["learned"], r["sinusoidal"]]
    claim = Claims()
    claim("without positions a shuffle shuffles the outputs, to rounding", none["gap"] < 1e-12)
    claim("with positions it doesn't (> 0.1)", all(x["gap"] > 0.1 for x in others))
    claim("without positions no sequence is reversed (<= 1%)", none["exact"] <= 0.01)
    claim("with positions of either kind all are (>= 99%)", all(x["exact"] >= 0.99 for x in others))
    claim("and each place looks most at its mirror image", all((x["map"].argmax(-1)[::-1] == range(T)).all() for x in others))
    claim("with weight >= 0.8 if positions are learned", r["learned"]["mirror"] >= 0.8)
    if args.plot:
        picture = Picture(
            "Reverse, with and without positions",
            "Look for the anti-diagonal: each place looks at its mirror image. Without positions no query can tell one place "
            "from another. Sinusoids of neighbours are alike, so there the weight spills over.",
            width=900,
        )
        for kind, x in r.items():
            picture.heat_map(x["map"], names, names, f"positions: {kind}", cell=20)
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
