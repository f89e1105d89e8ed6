"""Watch a model of char_model.py write, character by character; then see what each character costs with and without the cache.

    python examples/char_model.py --length 256 --batch 4 --positions rotary --save model.npz
    python examples/generate.py model.npz --prompt 这条又 --temperature 0.8

Without a file it trains a small model first. Without the cache the model reads the whole text again for each new character; with it,
the keys and values of what was read are kept, and only the new character goes through the model.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, installed or not

import char_model

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


def picture(path: str, places: list[int], times: dict[str, list[float]]) -> str:
    try:
        import matplotlib
    except ImportError:
        return f"no picture: --plot needs matplotlib (pip install matplotlib), so {path} was not written"
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "minigrad", "font.size": 11})
    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for (name, each), style in zip(times.items(), ("o-", "s--"), strict=True):
        ax.plot(places, each, style, label=name)
    ax.set_xlabel("characters so far")
    ax.set_ylabel("ms for one more")
    ax.set_ylim(bottom=0)
    ax.legend()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    plt.close(figure)
    return f"picture written to {path}"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="what char_model.py --save wrote (default: train a small model first)")
    parser.add_argument("--prompt", help="how the text begins (default: 这, or what the model's text has)")
    parser.add_argument("--count", type=int, help="how many characters to write (default: as many as fit into the context)")
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="below 1 more of the likely, above 1 more of the others (default: 1)"
    )
    parser.add_argument("--top-k", type=int, help="only the k likeliest characters (default: all)")
    parser.add_argument("--top-p", type=float, default=1.0, help="only the likeliest that together reach probability p (default: 1)")
    parser.add_argument("--greedy", action="store_true", help="always the likeliest")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same text (default: 0)")
    parser.add_argument("--plot", metavar="FILE", help="write the curve of times as a picture (needs matplotlib)")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        file = args.file or f"{folder}/model.npz"
        if not args.file:
            long = [
                "--length",
                "256",
                "--batch",
                "4",
                "--positions",
                "rotary",
                "--steps",
                "200",
            ]  # rotary: each place needn't be learned alone
            char_model.train(char_model.arguments([*long, "--save", file]))
            print()
        try:
            saved = torch.load(file)
            args.characters = saved["characters"]
            args.model = char_model.build(saved["options"], len(args.characters))
            args.model.load_state_dict(saved["model"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"{file}: {error}")
    if saved["options"]["no_attention"]:
        parser.error(f"{file} was trained with --no-attention: there is nothing to keep in a cache")
    if args.prompt is None:
        args.prompt = next((c for c in "这\n" if c in args.characters), args.characters[0])
    unknown = sorted(set(args.prompt) - set(args.characters))
    if unknown or not args.prompt:
        parser.error(
            f"--prompt: needs at least one character, and none but those the model knows: {args.characters!r}; got {args.prompt!r}"
        )
    try:
        chooser(args)(torch.zeros(1, len(args.characters)))
    except ValueError as error:
        parser.error(str(error))
    return args


def main(args: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(args.seed)
    ids = torch.tensor([args.characters.index(c) for c in args.prompt])
    length = args.model.max_length
    count = max(1, length - len(ids)) if args.count is None else args.count
    print(args.prompt, end="", flush=True)
    for token in generate(args.model, ids, count, chooser(args)):
        print(args.characters[int(token)], end="", flush=True)
        ids = torch.cat([ids, token.unsqueeze(0)])
    print("\n")
    text = torch.cat([ids[:length], torch.zeros(max(0, length - len(ids))).long()])  # what it is doesn't change what it costs
    places = sorted({max(1, length * i // 16) for i in range(1, 17)})
    times = milliseconds(args.model, text, places)
    print(curve(places, times))
    if args.plot:
        print(picture(args.plot, places, times))
    return {"ids": ids, "places": places, "times": times}


if __name__ == "__main__":
    main(arguments(None))
