"""A language model of characters: from random weights to whole sentences, in a few seconds.

It learns a small Chinese grammar whose exact entropy is known, so one can see how much of what is there it has found: the noun must
fit the measure word before it (只 条 头), also across an adjective phrase, as in 这条又大又白的狗. Or a text of yours: --text FILE.
See what breaks: --no-attention. For a longer text: --positions rotary --layers 2 --width 64 --heads 4 --length 64 --lr 5e-3 --steps 2000.
"""

import argparse
import math
import sys
import time
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where the next one is, also when this file is loaded by its path
import command  # what the examples share as programs

import layers as nn
import layers.functional as F
import minigrad as torch
from layers.sampling import generate, sample

# The grammar ----------------------------------------------------------------------------------------------------
#
#     sentence -> NP 在 [跑睡叫吃] 。  or  NP [看怕追爱] NP 。       half and half
#     NP       -> [这那每某] M [noun of M]                           2 in 5
#               | [这那每某] M A 的 [noun of M]                      3 in 10
#               | [这那每某] M 又 A 又 A' 的 [noun of M],  A' != A   3 in 10
# Whatever stands in brackets, M and A are equally likely.

DETERMINERS, ADJECTIVES, VERBS, TRANSITIVE = "这那每某", "大小黑白老胖", "跑睡叫吃", "看怕追爱"
NOUNS = {"只": "猫鸟羊鸡", "条": "鱼蛇狗龙", "头": "牛猪象驴"}  # by measure word
ALL_NOUNS = "".join(NOUNS.values())
LONGEST = 18  # characters of a sentence with two adjective phrases of five


def equally(characters: str, total: float = 1.0) -> dict[str, float]:
    return dict.fromkeys(characters, total / len(characters))


def noun_phrase(begun: str) -> dict[str, float]:
    """What may follow the beginning of a noun phrase, with its probability."""
    if len(begun) < 2:
        return equally("".join(NOUNS) if begun else DETERMINERS)
    nouns, phrase = NOUNS[begun[1]], begun[2:]
    if not phrase:
        return {**equally(nouns, 0.4), **equally(ADJECTIVES, 0.3), "又": 0.3}
    if phrase[-1] == "的":
        return equally(nouns)
    if phrase[-1] == "又":
        return equally(ADJECTIVES.replace(phrase[1:2], "") if len(phrase) == 3 else ADJECTIVES)
    return {"又": 1.0} if len(phrase) == 2 else {"的": 1.0}


def following(begun: str) -> dict[str, float]:
    """What may follow the beginning of a sentence, with its probability: all there is to know about the language."""
    nouns = [i for i, character in enumerate(begun) if character in ALL_NOUNS]
    if not nouns:
        return noun_phrase(begun)
    rest = begun[nouns[0] + 1 :]
    if not rest:
        return {"在": 0.5, **equally(TRANSITIVE, 0.5)}
    if rest == "在":
        return equally(VERBS)
    return {"。": 1.0} if rest[0] == "在" or len(nouns) == 2 else noun_phrase(rest[1:])


def pick(choices: dict[str, float], roll: float) -> str:
    """The choice on which a roll in [0, 1) falls, if each takes as much room as it has probability."""
    for character, p in choices.items():
        roll -= p
        if roll < 0:
            return character
    return character  # rounding left a little of the last one


def sentences(count: int) -> list[str]:
    """Random sentences of the grammar."""
    found = []
    for rolls in torch.rand(count, LONGEST, dtype=torch.float64).tolist():
        sentence = ""
        while not sentence.endswith("。"):
            sentence += pick(following(sentence), rolls[len(sentence)])
        found.append(sentence)
    return found


def oracle(text: str) -> list[float]:
    """-log p of each character of a text that begins with a sentence, for one who knows the grammar: nobody can do better."""
    losses, sentence = [], ""
    for character in text:
        losses.append(-math.log(following(sentence)[character]))
        sentence = "" if character == "。" else sentence + character
    return losses


def entropy() -> float:
    """Nats per character: the entropy of a sentence over its mean length, both sums over the rules above."""
    choice = -(0.4 * math.log(0.4) + 2 * 0.3 * math.log(0.3))
    phrase = math.log(4) + math.log(3) + choice + 0.3 * math.log(6) + 0.3 * math.log(6 * 5) + math.log(4)
    length = 3 + 0.3 * 2 + 0.3 * 5
    return (phrase + math.log(2) + math.log(4) + 0.5 * phrase) / (length + 2 + 0.5 * length + 1 - 0.5)


# The data -------------------------------------------------------------------------------------------------------


class Text:
    """Characters as ids, cut into windows of length + 1: the first `length` are the input, the last `length` the targets."""

    def __init__(self, path: str | None, length: int) -> None:
        self.grammar, self.length = path is None, length
        if path is None:  # windows begin where sentences begin
            train, held_out = ("".join(sentences(count)) for count in (10_000, 2_000))
            starts, ends = ([0] + [i + 1 for i, c in enumerate(text) if c == "。"] for text in (train, held_out))
        else:  # anywhere; the last tenth is held out
            whole = Path(path).read_text(encoding="utf-8-sig")
            train, held_out = whole[: -len(whole) // 10], whole[-len(whole) // 10 :]
            starts, ends = list(range(len(train))), list(range(0, len(held_out), length))
        fitting = [i for i in starts if i + length < len(train)]
        self.windows: list[str] = []  # held out; they don't overlap
        end = 0
        for i in ends:
            if i >= end and i + length < len(held_out) and len(self.windows) < 512:
                self.windows.append(held_out[i : i + length + 1])
                end = i + length
        if not fitting or not self.windows:
            raise ValueError(
                f"a text of {len(train) + len(held_out)} characters is too short for windows of {length + 1} in its last tenth"
            )
        self.train, self.characters = train, "".join(sorted({*train, *held_out}))
        self.check = zlib.crc32((train + held_out).encode())  # tells one text from another
        self._number = {character: i for i, character in enumerate(self.characters)}
        self._ids, self._starts = self.encode(train), torch.tensor(fitting)
        self.held_out = torch.stack([self.encode(window) for window in self.windows])  # (w, length + 1)

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([self._number[character] for character in text])

    def decode(self, ids: list[int]) -> str:
        return "".join(self.characters[i] for i in ids)

    def batch(self, size: int) -> torch.Tensor:
        """Random windows of the training text, (size, length + 1)."""
        starts = self._starts[torch.randint(0, len(self._starts), (size,))]
        return self._ids[starts.unsqueeze(1) + torch.arange(self.length + 1)]

    def baselines(self) -> dict[str, float]:
        """The held-out loss of those who count: how often each character comes, and each after the one before it.

        Whoever counts must leave something for what he hasn't seen: a character gets one count more, and what follows a character is
        a mixture of what followed it and of all, as if each had been seen once more with the latter (MacKay & Peto 1995).
        """
        single, pairs = Counter(self.train), Counter(pairwise(self.train))
        unigram = {c: (single[c] + 1) / (len(self.train) + len(self.characters)) for c in self.characters}
        targets = [pair for window in self.windows for pair in pairwise(window)]
        losses = {
            "bigram": [-math.log((pairs[a, b] + unigram[b]) / (single[a] + 1)) for a, b in targets],
            "unigram": [-math.log(unigram[b]) for _, b in targets],
        }
        if self.grammar:
            losses = {"oracle": [loss for window in self.windows for loss in oracle(window)[1:]], **losses}
        return {name: sum(each) / len(each) for name, each in losses.items()}


# The model ------------------------------------------------------------------------------------------------------


class Alone(nn.MultiHeadAttention):
    """Attention switched off: each token looks at itself only, with weight 1."""

    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        return self.W_o(self.W_v(x))


def build(options: dict[str, Any], vocab_size: int) -> nn.TinyTransformer:
    sizes = {"d_model": options["width"], "num_heads": options["heads"], "num_layers": options["layers"], "max_length": options["length"]}
    model = nn.TinyTransformer(vocab_size, **sizes, positions=options["positions"], tied=options["tied"])
    if options["no_attention"]:
        for layer in model.layers:
            layer.attention = Alone(options["width"], options["heads"])
    return model


def optimizer_of(model: Any, options: dict[str, Any], kind: Any = torch.optim.AdamW) -> Any:
    """AdamW, with weight decay on matrices only: it keeps the products in check. A norm's weight is 1 where it does nothing, and
    a bias is as large as the data want it: pulling these towards 0 is no simplification."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    return kind([{"params": matrices, "weight_decay": options["weight_decay"]}, {"params": others, "weight_decay": 0.0}], lr=options["lr"])


def objective(model: Any, windows: torch.Tensor, cross_entropy: Any = F.cross_entropy) -> Any:
    """The mean loss per character: at each place, of the character that comes next."""
    logits = model(windows[:, :-1])  # (b, t, v)
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1))


def learning_rate(step: int, options: dict[str, Any]) -> float:
    """Up in 20 steps, for Adam's first averages are of few gradients and its first steps too bold; then down along a cosine to a
    tenth, so that the last steps average over many batches instead of following each."""
    return options["lr"] * nn.utils.warmup_cosine(step, max(options["decay"], 20), 20, 0.1)


def update(model: Any, optimizer: Any, windows: torch.Tensor, step: int, options: dict[str, Any]) -> float:
    """One step of training; returns the loss before it."""
    loss = 0.0
    for part in windows.chunk(options["accumulate"]):  # gradients add up until the step: a large batch in the memory of a small one
        share = objective(model, part) * (len(part) / len(windows))  # so that the sum is the mean over all windows
        share.backward()
        loss += share.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # a rare large gradient would throw the weights far off
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, options)
    optimizer.step()
    optimizer.zero_grad()
    return loss


@torch.no_grad()
def held_out_loss(model: Any, text: Text) -> float:
    losses = [objective(model, part).item() * len(part) for part in text.held_out.split(64)]
    return sum(losses) / len(text.held_out)


@torch.no_grad()
def agreement(model: Any, text: Text) -> float:
    """After each 的 of the held-out text a noun follows, and the measure word stands before the adjective phrase: how much of the
    probability goes to nouns that fit it?"""
    fits = torch.tensor([[any(a in group and b in group for group in NOUNS.values()) for b in text.characters] for a in text.characters])
    after = text.held_out[:, :-1] == text.encode("的")  # (w, t)
    p = model(text.held_out[:, :-1]).softmax(-1)[after]  # (places, v)
    return (p * fits[text.held_out[:, 1:][after]]).sum(-1).mean().item()


def written(model: Any, text: Text, length: int) -> str:
    """A text of the model's own, from a first character of the training text. Training goes on as if nobody had asked."""
    state = torch.get_rng_state()
    first = text.batch(1)[0, :1]
    line = text.decode([*first.tolist(), *(token.item() for token in generate(model, first, length - 1, sample))])
    torch.set_rng_state(state)
    return line.replace("\n", "⏎")


# The job --------------------------------------------------------------------------------------------------------

DEFAULTS = {
    "text": None,
    "seed": 0,
    "steps": 600,
    "decay": 600,
    "batch": 16,
    "length": 32,
    "width": 32,
    "heads": 2,
    "layers": 1,
    "positions": "learned",
    "tied": False,
    "no_attention": False,
    "lr": 1e-2,
    "weight_decay": 0.01,
    "accumulate": 1,
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", metavar="FILE", help="a text in UTF-8 to learn; its last tenth is held out (default: the grammar)")
    parser.add_argument("--seed", type=int, help="same seed, same numbers, every run (default: 0)")
    parser.add_argument("--steps", type=command.natural, help="training steps (default: 600)")
    parser.add_argument("--decay", type=int, help="the step until which the learning rate falls (default: 600, or all steps if more)")
    parser.add_argument("--batch", type=command.count, help="windows per step (default: 16)")
    parser.add_argument("--accumulate", type=command.count, help="take each batch in so many parts, to save memory (default: 1)")
    parser.add_argument("--length", type=command.count, help="characters the model sees at a time (default: 32)")
    parser.add_argument("--width", type=command.count, help="features of a character (default: 32)")
    parser.add_argument("--heads", type=command.count, help="attention heads of a layer (default: 2)")
    parser.add_argument("--layers", type=command.count, help="decoder layers (default: 1)")
    parser.add_argument("--positions", choices=("learned", "sinusoidal", "rotary"), help="default: learned")
    parser.add_argument("--tied", action="store_true", default=None, help="the read-out uses the embedding's own vectors")
    parser.add_argument("--no-attention", action="store_true", default=None, help="each character looks at itself only")
    parser.add_argument("--lr", type=command.positive, help="the largest learning rate of AdamW (default: 0.01)")
    parser.add_argument("--weight-decay", type=command.not_negative, help="AdamW's, on matrices only (default: 0.01)")
    parser.add_argument("--compile", action="store_true", help="record the model once, then play the recording: the same numbers, sooner")
    parser.add_argument("--save", type=command.output, metavar="FILE", help="write weights, optimizer and random state (.npz)")
    parser.add_argument("--resume", metavar="FILE", help="go on from a saved file, as if there had been no break")
    args = parser.parse_args(argv)
    command.settle(parser, args, DEFAULTS, free={"text", "steps", "decay"})
    args.decay = max(args.decay, args.steps)
    if args.width % args.heads or (args.positions == "rotary" and args.width // args.heads % 2):
        parser.error(f"--heads must divide --width (rotary: into even parts), got {args.heads} and {args.width}")
    torch.manual_seed(args.seed)
    try:
        args.data = Text(args.text, args.length)
    except UnicodeDecodeError as error:
        parser.error(f"--text {args.text} is not UTF-8: {error}")
    except (OSError, ValueError) as error:
        parser.error(f"--text {args.text}: {error}")
    if args.saved and args.saved["check"] != args.data.check:
        parser.error(f"--resume: {args.resume} was trained on another text than {args.text or 'the grammar with this seed'}")
    return args


def report(model: Any, text: Text) -> dict[str, float]:
    """Measure, print and return."""
    numbers = {"held-out": held_out_loss(model, text), **text.baselines()}
    if text.grammar:
        numbers["agreement"] = agreement(model, text)
        print(f"agreement of noun and measure word across an adjective phrase: {100 * numbers['agreement']:.1f} % (by chance 33.3 %)")
    known = ", ".join(
        f"{name} {numbers[name]:.{2 if name == 'unigram' else 3}f}" for name in ("oracle", "bigram", "unigram") if name in numbers
    )
    print(f"held-out loss {numbers['held-out']:.3f} nats per character ({known})")
    return numbers


def train(args: argparse.Namespace) -> dict[str, Any]:
    """Train, report, and return the numbers. In args.saved is then what --save writes."""
    text, options = args.data, {name: getattr(args, name) for name in DEFAULTS}
    model = build(options, len(text.characters))
    optimizer = optimizer_of(model, options)
    known = f", entropy exactly {entropy():.3f} nats per character" if text.grammar else ""
    print(f"{args.text or 'the grammar'}: {len(text.train):,} characters, {len(text.characters)} different ones{known}")
    print(f"{sum(p.numel() for p in model.parameters()):,} weights, all random")
    first = step = 0
    loss = math.nan
    if args.saved:
        model.load_state_dict(args.saved["model"])
        optimizer.load_state_dict(args.saved["optimizer"])
        torch.set_rng_state(args.saved["random"])
        first = step = args.saved["step"]
        print(f"going on after step {step} of {args.resume}")

    played = torch.compile(model) if args.compile else model
    terminal, start, shown = sys.stdout.isatty(), time.perf_counter(), 0.0
    with command.ctrl_c() as stop:
        while step < args.steps and not stop:  # Ctrl-C waits for the end of a step, so nothing is left half done
            loss = update(played, optimizer, text.batch(args.batch), step, options)
            step += 1
            now = time.perf_counter()
            due = step % max(1, args.steps // 10) == 0 or step == args.steps
            if due or (terminal and now - shown > 0.05):
                speed = (step - first) / (now - start)
                line = f"step {step:4d}/{args.steps}   loss {loss:.3f}   {speed * args.batch * args.length:9,.0f} tokens/s"
                line = f"{line}   {(args.steps - step) / speed:4.0f} s left   "
                print("\r" * terminal + line + written(model, text, min(args.length, 32)) * due, end="\n" if due else "", flush=True)
                shown = now
    if step < args.steps:
        print(f"\nstopped after {step} steps; this is what was learned")

    args.saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state(), "step": step}
    args.saved |= {"options": options, "characters": text.characters, "check": text.check}
    try:
        if args.save:
            with command.writing(args.save, "weights"):
                torch.save(args.saved, args.save)
    finally:  # also where the file couldn't be written
        numbers = {"loss": loss, **report(model, text)}
    return numbers


if __name__ == "__main__":
    train(arguments(None))
