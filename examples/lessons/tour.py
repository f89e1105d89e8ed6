"""Put what the programs print now into the text blocks of examples/README*.md: python tour.py

A ```text block holds the output of the block above it: of a lesson (```sh, python examples/lessons/NN_name.py) or of
a program (```python). All lessons run with their default seed; that takes about a minute.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIR = re.compile(r"(```(sh|python)\n((?:(?!```).)*)```\n\n```text\n)(.*?)(```\n)", re.S)  # 2: kind, 3: what runs, 4: what it printed


def of_command(command):
    """What a command line (python FILE ...) prints, run in the root of the repository."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, *command.split()[1:]]
    return subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def of_program(code):
    """What a python block prints."""
    sys.path.insert(0, str(ROOT))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "the tour", "exec"), {})
    return printed.getvalue()


def main():
    files = {file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "examples").glob("README*.md"))}
    pairs = {(kind, code) for text in files.values() for _, kind, code, _, _ in PAIR.findall(text)}
    commands = sorted(code for kind, code in pairs if kind == "sh")
    with ThreadPoolExecutor(2) as pool:  # two at a time
        printed = dict(zip(commands, pool.map(of_command, commands), strict=True))
    printed |= {code: of_program(code) for kind, code in pairs if kind == "python"}
    for file, text in files.items():
        new = PAIR.sub(lambda m: m[1] + printed[m[3]] + m[5], text)
        file.write_text(new, encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {len(PAIR.findall(text))} outputs, {'changed' if new != text else 'as before'}")


if __name__ == "__main__":
    main()
