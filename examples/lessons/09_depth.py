"""Lesson 9. Why more than one layer of attention?

Induction: a word of 4 to 8 different letters, drawn anew for each line, is repeated to the end: cahfcahfca ... From the second
round on the next letter is certain for whoever finds the last place with the same letter and takes what stood after it.
But no head can look for "the place after that letter": a place must know the letter before it to be found by it. Two layers
can do it: the first tells each place what stood before it, the second looks for the place that was told the letter at hand.
So a token must be kept while something is added to it. Each block here is x + attention(norm(x)), where norm (RMSNorm)
brings all vectors to the same size; there is no MLP. The control has one block instead of two.
"""

import sys

from common import Claims, Decoder, beside, command_line, heat_map, table, train
from picture import Picture

import numpy as np

import layers.functional as F
import minigrad

LETTERS, T = "abcdefghijkl", 19


def lines(count):
    """ids (count, T), the next letters as targets (-100, not asked, in the first round), and the lengths of the words."""
    words = minigrad.rand(count, len(LETTERS)).sort().indices.numpy()  # each row is the alphabet in random order
    lengths = minigrad.randint(4, 9, (count, 1)).numpy()
    ids = np.take_along_axis(words, np.arange(T + 1) % lengths, 1)  # the first letters of the row, round and round
    targets = np.where(np.arange(1, T + 1) < lengths, -100, ids[:, 1:])
    return minigrad.tensor(ids[:, :-1]), minigrad.tensor(targets), lengths


def trained(num_blocks, num_heads, seed, steps):
    minigrad.manual_seed(seed)
    model = Decoder(len(LETTERS), T, 32, num_blocks, num_heads, mlp=False)

    def loss():
        ids, targets, _ = lines(32)
        return F.cross_entropy(model(ids)[0].reshape(-1, len(LETTERS)), targets.reshape(-1))

    train(model, loss, steps, lr=5e-3)
    with minigrad.no_grad():
        ids, targets, lengths = lines(1000)
        logits, maps = model(ids)
    asked = (targets != -100).numpy()  # (1000, T)
    i, j = np.arange(T)[:, None], np.arange(T)  # i looks at j
    first_round = (i[:, 0] > 0) & (i[:, 0] < lengths)
    after_same = (j <= i) & ((i + 1 - j) % lengths[..., None] == 0)  # (1000, T, T)
    first, last = (weights.numpy().mean(1) for weights in (maps[0], maps[-1]))  # mean over heads
    return {
        "acc": (logits.argmax(-1) == targets).numpy()[asked].mean(),
        "before": (first * (j == i - 1)).sum(-1)[first_round].mean(),
        "after": (last * after_same).sum(-1)[asked].mean(),
        "text": [LETTERS[k] for k in ids[0].tolist()],
        "maps": [weights[0, 0].numpy() for weights in maps],
    }


def run(seed=0, steps=500):
    return {(blocks, heads): trained(blocks, heads, seed, steps) for blocks, heads in ((1, 1), (1, 4), (2, 1))}


def main(argv=None):
    args = command_line(__doc__, steps=500, argv=argv)
    r = run(args.seed, args.steps)
    two = r[2, 1]
    rows = [[*key, f"{x['acc']:.3f}", f"{x['before']:.2f}", f"{x['after']:.2f}"] for key, x in r.items()]
    head = ["blocks", "heads in each", "right", "first block: weight on the letter before", "last block: weight after the same letter"]
    print(table(head, rows))
    print("\nright: next letters from the second round on, in 1000 new lines. The first block's weight is a mean over the first round,")
    print("the last block's over the places that are asked. Four heads don't help one block: all four read the same untouched letters.")
    print("\nTwo blocks read one line (rows look at columns):")
    maps = dict(zip(("first block", "second block"), two["maps"], strict=True))
    print(beside(*(f"  {name}\n{heat_map(weights, two['text'], two['text'])}" for name, weights in maps.items())))
    if min(two["before"], two["after"]) > 0.5:
        seen = (
            "In the first round the first block looks one letter back: the stripe beside the diagonal.\nFrom the second round on "
            "the second block looks at the letter that came after the same letter in an earlier round: the answer itself."
        )
    else:
        seen = "With this seed training found another way: the two blocks look at other places, and the answers are right still."
    print(f"\n{seen}\n")
    claim = Claims()
    claim("two blocks name the next letter (>= 98%)", two["acc"] >= 0.98)
    claim("one block doesn't, with one head or four (<= 75%)", max(r[1, 1]["acc"], r[1, 4]["acc"]) <= 0.75)
    if args.plot:
        picture = Picture(
            "Two layers find what comes next",
            f"Look for two steps, at the left who is told by whom, at the right who asks whom. {seen}",
        )
        for name, weights in maps.items():
            picture.heat_map(weights, two["text"], two["text"], name, cell=19)
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
