"""Lesson 5. Why must the future be hidden, and how do you notice when it isn't?

Row t of the model reads token t and predicts token t+1, so it may see tokens 0 to t and no more. Two experiments:
  1. a language of known entropy: 12 letters, and each is one of the 2 that may follow the letter two before it. The 15
     predictions of a text cost at least (ln 12 + 14 ln 2) / 15 = 0.813 each, whatever the model. Train with and without mask.
  2. five ways to get masked attention wrong, and the check that catches each:
     leak:  change the last token; earlier outputs must change by 0
     sums:  the weights of a query must add up to 1, error 0
     reach: change the first token; the last output must change
     order: without the mask, permuted tokens must give permuted outputs, difference 0
"""

import math
import sys

from common import Claims, Decoder, beside, command_line, heat_map, start, table, train
from picture import Picture

import numpy as np

import layers as nn
import layers.functional as F
import minigrad

LETTERS, LENGTH = 12, 16
FLOOR = (math.log(LETTERS) + 14 * math.log(2)) / 15


def texts(followers, count):
    """Texts of the language; followers (LETTERS, 2) are the letters that may come two places after:  (count, LENGTH)."""
    ids = [minigrad.randint(0, LETTERS, (count,)) for _ in range(2)]
    while len(ids) < LENGTH:
        ids.append(followers[ids[-2], minigrad.randint(0, 2, (count,))])
    return minigrad.stack(ids, dim=1)


def language_model(followers, causal, steps):
    """Train one, let it write, look at its weights, and change the last letter it reads."""
    model = Decoder(LETTERS, LENGTH - 1, d=32, causal=causal)

    def loss(count=64):
        ids = texts(followers, count)
        return F.cross_entropy(model(ids[:, :-1])[0].reshape(-1, LETTERS), ids[:, 1:].reshape(-1))  # targets: one place on

    losses = train(model, loss, steps, lr=3e-3)
    with minigrad.no_grad():
        written = minigrad.randint(0, LETTERS, (300, 2))
        while written.shape[1] < LENGTH:
            p = model(written)[0][:, -1].softmax(-1)  # of the next letter, given those written so far
            written = minigrad.cat([written, minigrad.multinomial(p, 1)], dim=1)
        legal = (followers[written[:, :-2]] == written[:, 2:].unsqueeze(-1)).any(-1)  # (300, 14)
        ids = texts(followers, 300)[:, :-1]
        logits, (weights,) = model(ids)
        changed, _ = model(minigrad.cat([ids[:, :-1], LETTERS - 1 - ids[:, -1:]], dim=1))
        w, held_out = weights[:, 0].numpy(), loss(1000).item()  # (300, 15, 15)
    measured = {"loss": held_out, "legal": legal.float().mean().item(), "leak": (logits - changed)[:, :-1].abs().max().item()}
    measured |= {"to previous": np.diagonal(w, -1, 1, 2).mean(), "to next": np.diagonal(w, 1, 1, 2).mean()}
    return measured | {"losses": losses, "map": w[0], "letters": ["abcdefghijkl"[i] for i in ids[0].tolist()]}


INF = math.inf
WEIGHTS = {  # the right way from scores (h, t, t) to weights, then wrong ones; `future` is True above the diagonal
    "none": lambda scores, future: scores.masked_fill(future, -INF).softmax(-1),
    "mask after the softmax": lambda scores, future: scores.softmax(-1).masked_fill(future, 0.0),
    "0 instead of -inf": lambda scores, future: scores.masked_fill(future, 0.0).softmax(-1),
    "mask transposed": lambda scores, future: scores.masked_fill(future.T, -INF).softmax(-1),
    "triu(diagonal=0)": lambda scores, future: scores.masked_fill(minigrad.ones(*future.shape).triu(0).bool(), -INF).softmax(-1),
}
CUT = "heads cut without transpose"
CHECKS = {"leak": lambda v: v < 1e-6, "sums": lambda v: v < 1e-5, "reach": lambda v: v > 1e-4, "order": lambda v: v < 1e-5}


class Mistaken(nn.MultiHeadAttention):
    """x (t, d_model) -> output (t, d_model), weights (h, t, t), by MultiHeadAttention with one of the mistakes."""

    def forward(self, x, mistake, masked=True):
        split, merge = self.split_heads, self.merge_heads
        if mistake == CUT:  # the right shapes, but each head is given some of the tokens instead of a part of each
            split, merge = lambda x: x.reshape(self.num_heads, -1, self.d_head), lambda x: x.reshape(-1, self.d_model)
        Q, K, V = split(self.W_q(x)), split(self.W_k(x)), split(self.W_v(x))  # (h, t, d_head)
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = WEIGHTS.get(mistake, WEIGHTS["none"])(scores, nn.causal_mask(len(x))) if masked else scores.softmax(-1)
        return self.W_o(merge(weights @ V)), weights


@minigrad.no_grad()
def checks(mistake):
    """The numbers of the four checks for untrained attention with this mistake: 6 random tokens, 2 heads."""
    attention, x, new, order = Mistaken(8, 2).apply(start), minigrad.randn(6, 8), minigrad.randn(1, 8), minigrad.tensor([1, 2, 3, 4, 5, 0])
    output, weights = attention(x, mistake)
    first, last = (attention(minigrad.cat(parts), mistake)[0] for parts in ([new, x[1:]], [x[:-1], new]))  # another first, last token
    free, permuted = attention(x, mistake, masked=False)[0], attention(x[order], mistake, masked=False)[0]
    differences = (last - output)[:-1], weights.sum(-1) - 1, (first - output)[-1], permuted - free[order]
    return {check: d.abs().max().item() for check, d in zip(CHECKS, differences, strict=True)}


def run(seed=42, steps=400):
    minigrad.manual_seed(seed)
    followers = minigrad.stack([minigrad.randperm(LETTERS)[:2] for _ in range(LETTERS)])
    r = {name: language_model(followers, name == "mask", steps) for name in ("mask", "no mask")}
    return r | {"checks": {mistake: checks(mistake) for mistake in (*WEIGHTS, CUT)}}


def main(argv=None):
    args = command_line(__doc__, steps=400, argv=argv)
    r = run(args.seed, args.steps)
    mask, free = r["mask"], r["no mask"]
    print(f"1. After {args.steps} steps (a letter drawn blindly is legal with probability 2/12 = 0.167):")
    rows = [[k, *(f"{r[k][f]:.3f}" for f in ("loss", "legal", "to previous", "to next", "leak"))] for k in ("mask", "no mask")]
    print(table(["", f"loss (floor {FLOOR:.3f})", "legal letters written", "weight on t-1", "weight on t+1", "leak"], rows))
    print("\n  The weights on a new text, with the mask and without:")
    print(beside(*(heat_map(r[k]["map"], r[k]["letters"], r[k]["letters"]) for k in ("mask", "no mask"))))
    below = next((step for step, loss in enumerate(free["losses"], 1) if loss < FLOOR - 0.1), "(never)")
    print(f"  Without the mask the loss is below the floor from step {below} on. That is no better model, it is proof of a leak: the")
    print("  model copies the answer from the next place, and has learnt nothing to write with. Its loss stays above 0, for the")
    print(f"  last place has nothing to copy from: ln 2 / 15 = {math.log(2) / 15:.3f}.\n")
    caught = {m: [k for k, right in CHECKS.items() if not right(v[k])] for m, v in r["checks"].items()}
    print("2. The checks on untrained attention; ! marks a failed one:")
    rows = [[m, *(f"{v[k]:.0e}{' !' * (k in caught[m])}" for k in CHECKS)] for m, v in r["checks"].items()]
    print(table(["mistake", *CHECKS], rows) + "\n")
    claim = Claims()
    claim("with the mask the loss ends at the floor (-0.03 .. +0.06)", -0.03 < mask["loss"] - FLOOR < 0.06)
    claim("without it, far below what is possible (< 0.3)", free["loss"] < 0.3)
    claim("only the model with the mask can write (legal >= 97%; without it <= 65%)", mask["legal"] >= 0.97 and free["legal"] <= 0.65)
    claim("with the mask the leak is exactly 0, without it it is not", mask["leak"] == 0 < free["leak"])
    claim("right attention passes all four checks, every mistake fails one", all((m == "none") != bool(c) for m, c in caught.items()))
    claim("leak catches the four wrong masks, but not the wrong heads", [m for m in caught if "leak" in caught[m]] == list(WEIGHTS)[1:])
    claim("reach and order catch the wrong heads", caught[CUT] == ["reach", "order"])
    if args.plot:
        picture = Picture(
            "With and without the causal mask",
            "A row shows where one letter looks. With the mask all squares right of the diagonal are empty, and the weight is on the "
            "letter before, which decides. Without it the weight is right of the diagonal, on the answer itself, and the loss falls below "
            "the entropy of the language: no better model, but a leak.",
            width=1010,
        )
        for k in ("mask", "no mask"):
            picture.heat_map(r[k]["map"], r[k]["letters"], r[k]["letters"], k, cell=18)
        curves = {"mask": mask["losses"], "no mask": free["losses"], "entropy of the language": [FLOOR] * args.steps}
        picture.lines(
            {k: (range(1, args.steps + 1), v) for k, v in curves.items()}, "", "step", "loss, nats per letter", wide=330, high=200
        )
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
