"""What the lessons share, so that each can keep to its question.

What is here, from top to bottom:

    args = command_line(__doc__, steps=400)      --seed, --plot FILE, --steps; prints the question
    model = Model(vocab_size, length, d)         token + position vectors -> attention -> one linear map
    model = Decoder(vocab_size, length, d)       the same with residuals, norms and MLPs, num_blocks times
    losses = train(model, loss, steps, lr)       Adam; loss() draws a fresh batch and returns its loss
    print(table(head, rows))                     numbers, each beside its control
    print(heat_map(weights, rows, columns))      weights as text: ten greys, two characters a cell
    print(beside(text, text))                    blocks of text side by side
    claim = Claims(); claim("text", ok)          what the lesson says, checked; sys.exit(claim.exit_code())

and in picture.py

    picture = Picture(title, caption)            SVG: picture.heat_map(...), picture.lines(...), picture.save(file)
"""

import argparse
import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # runs from a clone, installed or not
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small lose time when they are shared out to threads
from picture import width

import layers as nn
from minigrad.optim import Adam

GREYS = " .:-=+*#%@"


def command_line(doc, steps=None, argv=None):
    """The options of a lesson, args.seed, args.plot and (if it trains) args.steps. Prints the question first."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=42, help="other data and other first weights (default 42)")
    parser.add_argument("--plot", metavar="FILE", help="also write the picture, an SVG file")
    if steps is not None:
        parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default {steps})")
    args = parser.parse_args(argv)
    print(doc.strip() + "\n")
    return args


class Model(nn.Module):
    """Token + position vectors -> attention -> one linear map:  ids (b, t) -> logits (b, t, classes), weights (b, h, t, t).

    No residual, no norm, no MLP: what it can do, attention did.
    """

    def __init__(self, vocab_size, length, d, classes=None, num_heads=1, causal=False):
        self.tokens, self.positions = nn.Embedding(vocab_size, d), nn.Embedding(length, d)
        self.attention = nn.MultiHeadAttention(d, num_heads, causal)
        self.head = nn.Linear(d, classes or vocab_size)
        self.apply(start)

    def embed(self, ids):
        return self.tokens(ids) + self.positions.weight[: ids.shape[-1]]  # (b, t, d)

    def forward(self, ids):
        mixed, weights = self.attention(self.embed(ids), return_weights=True)  # (b, t, d), (b, h, t, t)
        return self.head(mixed), weights


class Block(nn.Module):
    """x + attention(norm(x)), then, if it has an mlp, x + SwiGLU(norm(x)):  (b, t, d) -> (b, t, d), weights (b, h, t, t)."""

    def __init__(self, d, num_heads=1, causal=True, mlp=True):
        self.norm1, self.attention = nn.RMSNorm(d), nn.MultiHeadAttention(d, num_heads, causal)
        self.norm2, self.mlp = (nn.RMSNorm(d), nn.SwiGLU(d, 2 * d)) if mlp else (None, None)

    def forward(self, x):
        mixed, weights = self.attention(self.norm1(x), return_weights=True)
        x = x + mixed
        return (x + self.mlp(self.norm2(x)) if self.mlp else x), weights


class Decoder(nn.Module):
    """Token + position vectors -> blocks -> norm -> linear map:  ids (b, t) -> logits (b, t, vocab_size), weights of each block."""

    def __init__(self, vocab_size, length, d, num_blocks=1, num_heads=1, causal=True, mlp=True):
        self.tokens, self.positions = nn.Embedding(vocab_size, d), nn.Embedding(length, d)
        self.blocks = [Block(d, num_heads, causal, mlp) for _ in range(num_blocks)]
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, vocab_size)
        self.apply(start)

    def forward(self, ids):
        x, maps = self.tokens(ids) + self.positions.weight[: ids.shape[-1]], []  # (b, t, d)
        for block in self.blocks:
            x, weights = block(x)
            maps.append(weights)
        return self.head(self.norm(x)), maps


def start(module):
    """First weights under which x = token + position, q, k and v all have variance 1: the assumption behind sqrt(d)."""
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=math.sqrt(1 / 2))
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=math.sqrt(1 / module.in_features))
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def train(model, loss, steps, lr, each=None):
    """Adam on loss(), a fresh batch each time; returns the losses. each(step) may look on; where it answers True, training ends."""
    optimizer, losses = Adam(model.parameters(), lr), []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
        if each and each(step):
            break
    return losses


# Text ---------------------------------------------------------------------------------------------------------


def pad(text, columns):
    return text + " " * (columns - width(text))


def table(head, rows):
    """A table as text; numbers are shown as the caller formatted them."""
    lines = [[str(cell) for cell in line] for line in [head, *rows]]
    sizes = [max(width(line[i]) for line in lines) for i in range(len(head))]
    text = ["  " + "  ".join(pad(cell, size) for cell, size in zip(line, sizes, strict=True)).rstrip() for line in lines]
    return "\n".join([text[0], "  " + "-" * (sum(sizes) + 2 * len(sizes) - 2), *text[1:]])


def heat_map(weights, rows, columns):
    """Weights in 0..1, (len(rows), len(columns)), as text; column names stand upright."""
    size = max(map(width, rows))
    lines = [" " * size + "  " + "".join(pad(c[i : i + 1], 2) for c in columns) for i in range(max(map(len, columns)))]
    for name, row in zip(rows, weights, strict=True):
        lines.append(pad(name, size) + " |" + "".join(GREYS[min(int(w * 10), 9)] * 2 for w in row) + "|")
    return "\n".join(["  " + line.rstrip() for line in lines] + [f"  from 0 to 1: '{GREYS}'"])


def beside(*blocks):
    """Blocks of text (heat maps, say), one beside the other."""
    columns = [block.split("\n") for block in blocks]
    high, wide = max(map(len, columns)), [max(map(width, lines)) for lines in columns]
    rows = [[lines[i] if i < len(lines) else "" for lines in columns] for i in range(high)]
    return "\n".join("   ".join(pad(text, w) for text, w in zip(row, wide, strict=True)).rstrip() for row in rows)


class Claims:
    """claim = Claims(); claim("text", ok) prints and remembers; claim.exit_code() is 0 if all held, else 1."""

    def __init__(self):
        self.failed = []

    def __call__(self, text, ok):
        print(f"  [{'ok' if ok else 'FAILED'}] {text}")
        if not ok:
            self.failed.append(text)

    def exit_code(self):
        return 1 if self.failed else 0
