"""All lessons in order, a line each: python all.py [--seed N] [--plots DIR]. Ends non-zero when any claim fails."""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent


def lesson(script, options):
    """Run one script: how it ended, and the seconds it took."""
    begin, environment = time.perf_counter(), {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, script, *options], capture_output=True, encoding="utf-8", env=environment, check=False)
    return done, time.perf_counter() - begin


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=42, help="the seed of all lessons (default 42)")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="also write all pictures, into this folder")
    args = parser.parse_args(argv)
    scripts, begin, passed = sorted(HERE.glob("[0-9][0-9]_*.py")), time.perf_counter(), 0
    options = [["--seed", str(args.seed)] for _ in scripts]
    if args.plots:
        args.plots.mkdir(parents=True, exist_ok=True)
        options = [[*o, "--plot", str(args.plots / f"{script.stem}.svg")] for o, script in zip(options, scripts, strict=True)]
    with ThreadPoolExecutor(2) as pool:  # two at a time, told in order
        for script, (done, seconds) in zip(scripts, pool.map(lesson, scripts, options), strict=True):
            ok = done.returncode == 0
            claims = [line for line in done.stdout.splitlines() if line.startswith(("  [ok]", "  [FAILED]"))]
            held = sum(line.startswith("  [ok]") for line in claims)
            print(f"{'pass' if ok else 'FAIL'}  {script.stem:16} {held:2} of {len(claims):2} claims held  {seconds:5.1f} s", flush=True)
            if not ok:
                print(*(line for line in claims if line.startswith("  [FAILED]")), done.stderr, sep="\n")
            passed += ok
    print(f"{passed} of {len(scripts)} lessons passed in {time.perf_counter() - begin:.0f} s")
    return int(passed < len(scripts))


if __name__ == "__main__":
    sys.exit(main())
