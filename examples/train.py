"""Watch attention learn: from random weights to reversing sequences of 12 digits, in about a second.

The model is an embedding, learned positions, one attention head and a linear read-out; nothing else is needed, and that is the
point. Each output position learns to look at the one input position it must copy from, and the attention map shows it.
See what breaks: --no-positions, --causal; what changes: --heads 4, --task sort. `--help` lists everything.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where the next one is, also when this file is loaded by its path
import command  # what the examples share as programs

import layers as nn
import layers.functional as F
import minigrad as torch

VOCABULARY = 10  # the digits
D_MODEL = 32
HELD_OUT = 512


# The tasks: add yours as one function from inputs (b, t) to targets (b, t), and a line in the table ------------


def reverse(x: torch.Tensor) -> torch.Tensor:
    return x[:, torch.arange(x.shape[1] - 1, -1, -1)]


def sort(x: torch.Tensor) -> torch.Tensor:
    return x.sort(dim=1).values


def copy(x: torch.Tensor) -> torch.Tensor:
    return x


@dataclass(frozen=True)
class Task:
    target: Callable[[torch.Tensor], torch.Tensor]
    length: int = 12
    steps: int = 200
    lr: float = 3e-3
    heads: int = 1


TASKS = {
    "reverse": Task(reverse),
    "copy": Task(copy),
    "sort": Task(sort, length=8, steps=1000, lr=5e-3, heads=4),  # counting what is smaller takes more than one look
}


class Model(nn.Module):
    """ids (b, t) -> logits (b, t, VOCABULARY), and the attention weights (b, h, t, t)."""

    def __init__(self, length: int, heads: int, positions: bool, causal: bool) -> None:
        # N(0, 1/2) each: token + position then has variance 1, the size that attention's 1/sqrt(d_head) is made for
        self.token = nn.init.normal_(nn.Parameter(torch.zeros(VOCABULARY, D_MODEL)), std=math.sqrt(0.5))
        self.position = nn.init.normal_(nn.Parameter(torch.zeros(length, D_MODEL)), std=math.sqrt(0.5)) if positions else None
        self.attention = nn.MultiHeadAttention(D_MODEL, heads, causal=causal)
        self.head = nn.Linear(D_MODEL, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = F.embedding(ids, self.token)  # (b, t, d)
        if self.position is not None:
            x = x + self.position  # (b, t, d): without it a set of tokens has no order
        mixed, weights = self.attention(x, return_weights=True)  # (b, t, d), (b, h, t, t)
        return self.head(mixed), weights  # (b, t, VOCABULARY)


# Data: random digits; what is held out is never trained on -----------------------------------------------------


def number(ids: torch.Tensor) -> torch.Tensor:
    return (ids * 10 ** torch.arange(ids.shape[1])).sum(dim=1)  # (b, t) -> (b): each sequence as one integer


def batch(size: int, length: int, held_out: set[int]) -> torch.Tensor:
    """Random sequences (b, t), none of them held out."""
    while True:
        ids = torch.randint(0, VOCABULARY, (size, length))
        if held_out.isdisjoint(number(ids).tolist()):
            return ids


# What is shown ---------------------------------------------------------------------------------------------------


class Progress:
    """One line that rewrites itself on a terminal; ten plain lines where the output is piped."""

    def __init__(self, first: int, steps: int) -> None:
        self.first, self.steps, self.start, self.shown = first, steps, time.perf_counter(), 0.0
        self.terminal = sys.stdout.isatty()

    def __call__(self, step: int, loss: float, accuracy: float) -> None:
        now = time.perf_counter()
        left = (now - self.start) / (step - self.first) * (self.steps - step)
        due = now - self.shown > 0.05 if self.terminal else step % max(1, self.steps // 10) == 0
        if due or step == self.steps:
            self.shown = now
            text = f"step {step:4d}/{self.steps}   loss {loss:.4f}   digits right {accuracy:6.1%}   {left:4.1f} s left"
            print(f"\r{text}" if self.terminal else text, end="" if self.terminal else "\n", flush=True)

    def done(self) -> None:
        if self.terminal:
            print()


SHADES = " .:-=+*#%@"


def heat_map(weights: list[list[float]], rows: list[int], columns: list[int]) -> str:
    """Weights (t, t) from 0 (blank) to 1 (@@), two characters a cell, with the tokens along the edges."""
    lines = ["     " + " ".join(f"{c:2d}" for c in columns)]
    for token, row in zip(rows, weights, strict=True):
        lines.append(f"  {token:2d} " + " ".join(SHADES[min(9, int(10 * w))] * 2 for w in row))
    return "\n".join(lines)


def picture(path: str, maps: list[list[list[float]]], rows: list[int], columns: list[int], title: str) -> None:
    with command.drawing(path, ncols=len(maps), figsize=(4.6 * len(maps), 4.6), squeeze=False) as (figure, axes):
        for h, (ax, weights) in enumerate(zip(axes[0], maps, strict=True)):
            ax.imshow(weights, vmin=0, vmax=1, cmap="Blues")
            ax.set_xticks(range(len(columns)), [str(c) for c in columns])
            ax.set_yticks(range(len(rows)), [str(r) for r in rows])
            ax.xaxis.tick_top()
            ax.set_xlabel("input: where the output looks" if len(maps) == 1 else f"head {h}")
            ax.set_ylabel("output")
        figure.suptitle(title)


# The job ---------------------------------------------------------------------------------------------------------


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, help="what to learn (default: reverse)")
    parser.add_argument("--seed", type=int, help="same seed, same numbers, every run (default: 0)")
    parser.add_argument("--steps", type=command.natural, help="training steps (default: the task's)")
    parser.add_argument("--batch", type=command.count, help="sequences per step (default: 64)")
    parser.add_argument("--lr", type=command.positive, help="Adam's learning rate (default: the task's)")
    parser.add_argument("--heads", type=command.count, help="attention heads (default: the task's)")
    parser.add_argument("--no-positions", action="store_true", default=None, help="leave the positions out: order becomes invisible")
    parser.add_argument("--causal", action="store_true", default=None, help="hide the future: half of what must be copied lies there")
    parser.add_argument("--plot", type=command.picture, metavar="FILE", help="write the attention map as a picture (needs matplotlib)")
    parser.add_argument("--save", type=command.output, metavar="FILE", help="write weights, optimizer and random state (.npz)")
    parser.add_argument("--resume", metavar="FILE", help="go on from a saved file, as if there had been no break")
    args = parser.parse_args(argv)
    task = TASKS[args.task or "reverse"]
    defaults = {"task": "reverse", "seed": 0, "batch": 64, "no_positions": False, "causal": False}
    command.settle(parser, args, {**defaults, "steps": task.steps, "lr": task.lr, "heads": task.heads}, free={"steps"})
    if D_MODEL % args.heads:
        parser.error(f"--heads must divide the model's width {D_MODEL}, got {args.heads}")
    return args


def train(args: argparse.Namespace) -> dict[str, Any]:
    """Train, report, and return the numbers."""
    task = TASKS[args.task]
    torch.manual_seed(args.seed)
    test = torch.randint(0, VOCABULARY, (HELD_OUT, task.length))  # (512, t)
    held_out = set(number(test).tolist())
    model = Model(task.length, args.heads, not args.no_positions, args.causal)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"{args.task}: {sum(p.numel() for p in model.parameters())} weights, all random")
    step, loss = 0, math.nan
    if args.saved:
        model.load_state_dict(args.saved["model"])
        optimizer.load_state_dict(args.saved["optimizer"])
        torch.set_rng_state(args.saved["random"])
        step = args.saved["step"]
        print(f"going on after step {step} of {args.resume}")

    progress = Progress(step, args.steps)
    with command.ctrl_c() as stop:
        while step < args.steps and not stop:  # Ctrl-C waits for the end of a step, so nothing is left half done
            step += 1
            ids = batch(args.batch, task.length, held_out)
            targets = task.target(ids.clone())  # a copy: a task may write into it
            logits, _ = model(ids)
            objective = F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
            loss = objective.item()
            progress(step, loss, (logits.argmax(-1) == targets).float().mean().item())
    progress.done()
    if step < args.steps:
        print(f"stopped after {step} steps; this is what was learned")

    with torch.no_grad():
        logits, weights = model(test)
    exact = (logits.argmax(-1) == task.target(test.clone())).all(dim=1).float().mean().item()
    columns, rows = test[0].tolist(), logits[0].argmax(-1).tolist()
    maps = weights[0].tolist()  # (h, t, t)
    for h, head in enumerate(maps):
        print(f"\nwhere each output digit (rows) looks among the input digits (columns){f', head {h}' if len(maps) > 1 else ''}:\n")
        print(heat_map(head, rows, columns))
    print(f"\n  weights from 0 to 1: '{SHADES}'; at the left of each row the digit that the model wrote\n")
    try:
        if args.save:
            options = {name: getattr(args, name) for name in ("task", "seed", "steps", "batch", "lr", "heads", "no_positions", "causal")}
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
            with command.writing(args.save, "weights"):
                torch.save({**state, "step": step, "options": options}, args.save)
        if args.plot:
            picture(args.plot, maps, rows, columns, f"{args.task}: attention after {step} steps")
    finally:  # also where a file couldn't be written
        print(f"held-out exact match {100 * exact:.1f} % ({HELD_OUT} sequences never seen in training)")
    return {"exact": exact, "loss": loss, "weights": weights.numpy()}


if __name__ == "__main__":
    train(arguments(None))
