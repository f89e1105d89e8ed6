"""Lesson 7. Why three projections, W_q, W_k and W_v?

12 random digits; each place answers with the digit of another place. The places form circles, each looks at the next in its
circle, the last at the first. (a) reverse: 12 places, circles of two: 0 and 11, 1 and 10, ... (b) rotate: circles of three:
0, 1, 2 and 3, 4, 5, ... One head and nothing else does it. The controls have fewer weights: W_q = W_k; W_k = W_v; and none
of the three (Q = K = V = x).

With W_q = W_k a query is its own key, so the score of i with j, k_i . k_j, is the score of j with i. And it is at most
|k_i| |k_j| (Cauchy-Schwarz), hence at most the larger of k_i . k_i and k_j . k_j. So of two places one at least fits itself
as well as it fits the other. Nor can three places each prefer the next: that asks for s(0,1) > s(0,2), s(1,2) > s(1,0) and
s(2,0) > s(2,1). With s(i,j) = s(j,i) this reads s(0,1) > s(2,0) > s(1,2) > s(0,1): round in a circle, for ever greater.
"""

import sys

from common import Claims, Model, beside, command_line, heat_map, table, train
from picture import Picture

import layers as nn
import layers.functional as F
import minigrad

KINDS, T = 10, 12
CIRCLES = {"reverse": [[i, T - 1 - i] for i in range(T // 2)], "rotate": [[i, i + 1, i + 2] for i in range(0, T, 3)]}
TIES = ["all separate", "W_q = W_k", "W_k = W_v", "Q = K = V = x"]


def next_in_circle(circles):
    """Where each place finds its answer."""
    follows = {i: circle[(k + 1) % len(circle)] for circle in circles for k, i in enumerate(circle)}
    return [follows[i] for i in range(T)]


def trained(circles, tie, seed, steps):
    minigrad.manual_seed(seed)
    model, source = Model(KINDS, T, d=32), next_in_circle(circles)
    attention = model.attention
    if tie == "W_q = W_k":
        attention.W_k = attention.W_q
    elif tie == "W_k = W_v":
        attention.W_v = attention.W_k
    elif tie == "Q = K = V = x":
        attention.W_q = attention.W_k = attention.W_v = nn.Sequential()  # no layers: what goes in comes out

    def loss():
        ids = minigrad.randint(0, KINDS, (64, T))
        return F.cross_entropy(model(ids)[0].reshape(-1, KINDS), ids[:, source].reshape(-1))

    train(model, loss, steps, lr=3e-3)
    return model.double()  # from here on with 16 digits, so that rounding can't be mistaken for anything else


@minigrad.no_grad()
def measured(model, circles, ids):
    source = next_in_circle(circles)
    logits, weights = model(ids)
    weights, x = weights[:, 0], model.embed(ids)  # (b, t, t), (b, t, d)
    scores = model.attention.W_q(x) @ model.attention.W_k(x).mT  # (b, t, t)
    itself = minigrad.stack([scores[:, i, i] for i in range(T)], -1)  # (b, t)
    wants = (weights.argmax(-1) == minigrad.tensor(source)).numpy()  # (b, t): looks most at its source
    return {
        "acc": (logits.argmax(-1) == ids[:, source]).float().mean().item(),
        "self": weights[:, range(T), range(T)].mean().item(),
        "source": weights[:, range(T), source].mean().item(),
        "asymmetry": (scores - scores.mT).abs().max().item(),
        "excess": (scores - itself.unsqueeze(-1).maximum(itself.unsqueeze(-2))).max().item(),  # over the larger of the two selves
        "agree": sum(wants[:, circle].all(-1).mean() for circle in circles) / len(circles),
        "map": weights.mean(0).numpy(),
    }


def one_answer(circles, ids):
    """Share of right answers if all places of a circle must answer alike, and answer with its most frequent digit."""
    counts = [F.one_hot(ids[:, circle], KINDS).sum(1).max(-1).values.float().mean().item() / len(circle) for circle in circles]
    return sum(counts) / len(counts)


@minigrad.no_grad()
def without_W_v(model, ids):
    """The largest change of a logit when W_v and W_o are folded into the last map: W_head W_o W_v x, one matrix."""
    before = model(ids)[0]
    model.head.weight.data = (model.head.weight @ model.attention.W_o.weight @ model.attention.W_v.weight).data
    model.attention.W_v = model.attention.W_o = nn.Sequential()
    return (model(ids)[0] - before).abs().max().item()


def run(seed=0, steps=300):
    models = {(task, tie): trained(circles, tie, seed, steps) for task, circles in CIRCLES.items() for tie in TIES}
    minigrad.manual_seed(seed + 1)
    ids = minigrad.randint(0, KINDS, (1000, T))
    return {
        "models": {key: measured(model, CIRCLES[key[0]], ids) for key, model in models.items()},
        "one answer": {task: one_answer(circles, ids) for task, circles in CIRCLES.items()},
        "folded": {
            "one head, trained": without_W_v(models["reverse", "all separate"], ids),
            "two heads, untrained": without_W_v(Model(KINDS, T, d=32, num_heads=2).double(), ids),
        },
    }


def main(argv=None):
    args = command_line(__doc__, steps=300, argv=argv)
    r = run(args.seed, args.steps)
    models, one = r["models"], r["one answer"]
    rows = [[*key, *(f"{x[k]:.3f}" for k in ("acc", "self", "source"))] for key, x in models.items()]
    print(table(["task", "weights", "right answers", "weight on itself", "weight on the next"], rows))
    print("\nCompare W_q = W_k with a model whose circles agree on one mixture, so on one answer. The best it can do is to name the digit")
    print(f"that occurs most in the circle: right for {one['reverse']:.3f} (reverse) and {one['rotate']:.3f} (rotate).\n")
    names = [str(i) for i in range(T)]
    maps = {f"{task}, {tie}": models[task, tie]["map"] for task in CIRCLES for tie in TIES[:2]}
    texts = [f"  {name}\n{heat_map(m, names, names)}" for name, m in maps.items()]
    print(beside(*texts[:2]) + "\n" + beside(*texts[2:]))
    print("\nThe scores s(i,j), over 1000 sequences, and the circles in which every place looks most at the next:")
    both = [(task, tie, models[task, tie]) for task in CIRCLES for tie in TIES[:2]]
    rows = [[task, tie, f"{x['asymmetry']:.1e}", f"{x['excess']:.1e}", f"{x['agree']:.3f}"] for task, tie, x in both]
    print(table(["task", "weights", "largest |s(i,j) - s(j,i)|", "largest s(i,j) - max(s(i,i), s(j,j))", "circles that agree"], rows))
    print("\nW_v: the largest change of a logit when W_head W_o W_v is made one matrix, and W_v and W_o are dropped:")
    print(table(["model", "change"], [[name, f"{x:.1e}"] for name, x in r["folded"].items()]))
    print("\nSo one head needs no W_v. Of several, each reads its own part of the values, and W_v decides what stands in that part.\n")
    claim = Claims()
    tied = [models[task, "W_q = W_k"] for task in CIRCLES]
    claim("separate W_q, W_k, W_v do both tasks (>= 99%)", all(models[task, "all separate"]["acc"] >= 0.99 for task in CIRCLES))
    claim("W_q = W_k does neither (<= 65%)", all(x["acc"] <= 0.65 for x in tied))
    claim("W_q = W_k: the scores are symmetric (1e-12)", all(x["asymmetry"] < 1e-12 for x in tied))
    claim("W_q = W_k: no score is greater than both selves (1e-12)", all(x["excess"] < 1e-12 for x in tied))
    claim("W_q = W_k: no circle of two or three agrees", all(x["agree"] == 0 for x in tied))
    claim("W_k = W_v costs nothing (>= 99%)", all(models[task, "W_k = W_v"]["acc"] >= 0.99 for task in CIRCLES))
    claim("without any projection there is next to nothing (<= 30%)", all(models[task, TIES[3]]["acc"] <= 0.3 for task in CIRCLES))
    one, two = r["folded"].values()
    claim("one head answers the same without W_v, two heads don't", one < 1e-9 < 0.1 < two)
    if args.plot:
        picture = Picture(
            "W_q and W_k, separate or the same",
            "Look for the X: with W_q = W_k a place fits itself as well as its partner, so the clean anti-diagonal of reverse "
            "gets a diagonal across it, and of three places in a circle (rotate) each looks at all three.",
        )
        for name, weights in maps.items():
            picture.heat_map(weights, names, names, name, cell=26)
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
