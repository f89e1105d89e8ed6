"""What the examples share as programs: options that are checked before the work, and ends without a traceback."""

import argparse
import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # runs from a clone, installed or not
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small only wait for each other in threads


def ended(kind: type[BaseException], *rest: Any) -> None:
    """A line for Ctrl-C in place of a traceback. Python then ends by the same signal, which shells show as 130."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, *rest)


if Path(sys.argv[0]).resolve().parent == HERE:  # not in a test or a notebook that only imports one of them
    sys.excepthook = ended
    if hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # without a word when nobody reads on, as in `| head -1`
    if hasattr(sys.stdout, "reconfigure"):  # not in IDLE
        sys.stdout.reconfigure(errors="replace")  # a question mark for what the terminal can't show


@contextlib.contextmanager
def ctrl_c() -> Iterator[list[int]]:
    """The first Ctrl-C only fills this list, so that a step can end before the work does; the second doesn't wait."""
    stop: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: stop.append(1) if not stop else signal.default_int_handler(*_))
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


# Options: what argparse calls types. They refuse what will not do -----------------------------------------------


def number(kind: Callable[[str], Any], rule: str, holds: Callable[[Any], bool]) -> Callable[[str], Any]:
    """A number for which the rule holds."""

    def read(text: str) -> Any:
        value = kind(text)
        if not holds(value):
            raise argparse.ArgumentTypeError(f"must be {rule}, got {text}")
        return value

    read.__name__ = kind.__name__  # for argparse's own words: invalid int value
    return read


natural = number(int, "0 or more", lambda n: n >= 0)
count = number(int, "at least 1", lambda n: n >= 1)
positive = number(float, "a finite number above 0", lambda x: 0 < x < math.inf)
not_negative = number(float, "a finite number, 0 or more", lambda x: 0 <= x < math.inf)


def output(path: str) -> str:
    """A file that can be written when the work is done."""
    folder = os.path.dirname(os.path.realpath(path))
    for wrong, why in (
        (not os.path.isdir(folder), "there is no such folder"),
        (os.path.exists(path) and not os.path.isfile(path), "it exists, and is not a file"),
        (not os.access(folder, os.W_OK), "nothing can be written to this folder"),
    ):
        if wrong:
            raise argparse.ArgumentTypeError(f"{path}: {why}")
    return path


def picture(path: str) -> str | None:
    """A file for a picture. Without matplotlib there will be none."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        print(f"no picture: --plot needs matplotlib (pip install matplotlib), so {path} will not be written")
        return None
    kinds = [f".{kind}" for kind in FigureCanvasBase.get_supported_filetypes() if kind != "pgf"]  # that one needs LaTeX
    if Path(path).suffix.lower() not in kinds:
        raise argparse.ArgumentTypeError(f"{path}: a picture's name ends in one of {' '.join(kinds)}")
    return output(path)


def settle(parser: argparse.ArgumentParser, args: argparse.Namespace, defaults: dict[str, Any], free: set[str]) -> None:
    """Fill in what was not given: from the file to go on from, where only what is free may differ, else the defaults."""
    import minigrad  # not at the top: what it needs takes a while to load, and Ctrl-C should be known by then

    args.saved = None
    if args.resume:
        try:
            args.saved = minigrad.load(args.resume)
            defaults = {name: args.saved["options"][name] for name in defaults}
        except (OSError, ValueError) as error:
            parser.error(f"--resume {args.resume}: {error}")
        except (LookupError, TypeError):
            parser.error(f"--resume {args.resume} is not what this example saves")
        for name in set(defaults) - free:
            if getattr(args, name) not in (None, defaults[name]):
                parser.error(f"--resume: {args.resume} was trained with {name} = {defaults[name]}, not {getattr(args, name)}")
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


# Files ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(path: str, what: str) -> Iterator[None]:
    """Says that the file was written; where that fails, as on a full disk, says so and ends the program."""
    try:
        yield
    except OSError as error:
        sys.exit(f"{path} could not be written: {error.strerror or error}")
    print(f"{what} written to {path}")


@contextlib.contextmanager
def drawing(path: str, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure of matplotlib and its axes to draw on, written to the file."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "minigrad", "font.size": 11})
    figure, axes = plt.subplots(layout="constrained", **options)
    yield figure, axes
    with writing(path, "picture"):
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    plt.close(figure)
