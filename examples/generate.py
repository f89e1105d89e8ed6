"""Watch a model of char_model.py write, character by character; then see what each character costs with and without the cache.

    python examples/char_model.py --length 256 --batch 4 --positions rotary --save model.npz
    python examples/generate.py model.npz --prompt 这条又 --temperature 0.8

Without a file it trains a small model first. Without the cache the model reads the whole text again for each new character; with it,
the keys and values of what was read are kept, and only the new character goes through the model.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import char_model
import command  # what the examples share as programs

import minigrad as torch
from layers.decoder import Cache
from layers.sampling import generate, greedy, sample, temperature, top_k, top_p

BAR = 30  # characters of the longest bar


def chooser(args: argparse.Namespace) -> Callable[[torch.Tensor], torch.Tensor]:
    """Logits to ids, as the options say."""

    def choose(logits: torch.Tensor) -> torch.Tensor:
        logits = temperature(logits, args.temperature)
        logits = top_k(logits, args.top_k) if args.top_k else logits
        return sample(top_p(logits, args.top_p))

    return greedy if args.greedy else choose


@torch.no_grad()
def milliseconds(model: Any, ids: torch.Tensor, places: list[int], rounds: int = 5) -> dict[str, list[float]]:
    """What the token at each place costs, with and without the cache: the best of some rounds."""
    found = {"with the cache": [float("inf")] * len(places), "without": [float("inf")] * len(places)}
    for _ in range(rounds):
        cache, done = Cache(), 0
        for i, t in enumerate(places):
            if t - 1 > done:
                model(ids[done : t - 1], cache)  # all before it, not timed
            for name, run in (("with the cache", lambda t=t, c=cache: model(ids[t - 1 : t], c)), ("without", lambda t=t: model(ids[:t]))):
                start = time.perf_counter()
                run()
                found[name][i] = min(found[name][i], 1000 * (time.perf_counter() - start))
            done = t
    return found


def curve(places: list[int], times: dict[str, list[float]]) -> str:
    """The times as text: for each place a bar for each way."""
    most = max(map(max, times.values()))
    lines = ["time of one more character, in ms", "after   " + "".join(f"{name:{BAR + 9}}" for name in times).rstrip()]
    for i, t in enumerate(places):
        bars = (f"{each[i]:6.2f}  {'█' * max(1, round(BAR * each[i] / most)):{BAR + 1}}" for each in times.values())
        lines.append(f"{t - 1:5d} " + "".join(bars).rstrip())
    return "\n".join(lines)


def picture(path: str, places: list[int], times: dict[str, list[float]]) -> None:
    with command.drawing(path, figsize=(6.4, 4)) as (_, ax):
        for (name, each), style in zip(times.items(), ("o-", "s--"), strict=True):
            ax.plot(places, each, style, label=name)
        ax.set_xlabel("characters so far")
        ax.set_ylabel("ms for one more")
        ax.set_ylim(bottom=0)
        ax.legend()


def model_of(saved: dict[str, Any]) -> Any:
    """The model that char_model.py saved."""
    model = char_model.build(saved["options"], len(saved["characters"]))
    model.load_state_dict(saved["model"])
    return model


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="what char_model.py --save wrote (default: train a small model first)")
    parser.add_argument("--prompt", help="how the text begins (default: 这, or what the model's text has)")
    parser.add_argument("--count", type=command.natural, help="how many characters to write (default: as many as fit into the context)")
    above_0 = command.number(float, "a finite number above 0 (always the likeliest: --greedy)", lambda x: 0 < x < math.inf)
    parser.add_argument("--temperature", type=above_0, default=1.0, help="below 1 more of the likely, above it of the others (default: 1)")
    share = command.number(float, "above 0 and at most 1", lambda p: 0 < p <= 1)
    parser.add_argument("--top-k", type=command.count, help="only the k likeliest characters (default: all)")
    parser.add_argument("--top-p", type=share, default=1.0, help="only the likeliest that together reach probability p (default: 1)")
    parser.add_argument("--greedy", action="store_true", help="always the likeliest")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same text (default: 0)")
    parser.add_argument("--plot", type=command.picture, metavar="FILE", help="write the curve of times as a picture (needs matplotlib)")
    args = parser.parse_args(argv)
    if args.file:
        try:
            args.saved = torch.load(args.file)
            args.characters = args.saved["characters"]
            model_of(args.saved)
        except (OSError, ValueError) as error:
            parser.error(f"{args.file}: {error}")
        except (LookupError, TypeError):
            parser.error(f"{args.file} is not what char_model.py saves")
        if args.saved["options"]["no_attention"]:
            parser.error(f"{args.file} was trained with --no-attention: there is nothing to keep in a cache")
    else:
        long = ["--length", "256", "--batch", "4", "--positions", "rotary"]  # rotary: each place needn't be learned alone
        args.run = char_model.arguments([*long, "--steps", "200"])
        args.characters = args.run.data.characters
    if args.prompt is None:
        args.prompt = next((c for c in "这\n" if c in args.characters), args.characters[0])
    if not args.prompt or set(args.prompt) - set(args.characters):
        parser.error(
            f"--prompt: needs at least one character, and none but those the model knows: {args.characters!r}; got {args.prompt!r}"
        )
    return args


def main(args: argparse.Namespace) -> dict[str, Any]:
    if not args.file:
        char_model.train(args.run)
        print()
        args.saved = args.run.saved
    model = model_of(args.saved)
    torch.manual_seed(args.seed)
    ids = torch.tensor([args.characters.index(c) for c in args.prompt])
    length = model.max_length
    count = max(1, length - len(ids)) if args.count is None else args.count
    print(args.prompt, end="", flush=True)
    for token in generate(model, ids, count, chooser(args)):
        print(args.characters[int(token)], end="", flush=True)
        ids = torch.cat([ids, token.unsqueeze(0)])
    print("\n")
    text = torch.cat([ids[:length], torch.zeros(max(0, length - len(ids))).long()])  # what it is doesn't change what it costs
    places = sorted({max(1, length * i // 16) for i in range(1, 17)})
    times = milliseconds(model, text, places)
    print(curve(places, times))
    if args.plot:
        picture(args.plot, places, times)
    return {"ids": ids, "places": places, "times": times}


if __name__ == "__main__":
    main(arguments(None))
