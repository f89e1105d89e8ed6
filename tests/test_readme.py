"""The README's programs run, and print what the README says they print."""

import contextlib
import io
import re
from pathlib import Path

import mutants
import pytest
import test_wrong_calls

import minigrad

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
PROGRAMS = [(code, BLOCKS[i + 1]) for i, (kind, code) in enumerate(BLOCKS) if kind == "python"]


def test_the_first_block_is_the_two_commands():
    kind, block = BLOCKS[0]
    assert kind == "sh"
    train, test = block.strip().splitlines()
    assert train.endswith("examples/train.py")
    assert test.endswith("-m pytest")
    assert all(line.startswith("python3 -m venv .venv && .venv/bin/pip install") for line in (train, test))


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_what_stands_below_it(program):
    code, (kind, expected) = program
    assert kind == "text", "each program is followed by its output"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == expected


def test_files_named_in_the_readme_exist():
    names = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert names
    missing = [name for name in names if not (README.parent / name).exists()]
    assert not missing


def test_the_engine_ends_where_the_package_says():
    text = (README.parent / "minigrad/tensor.py").read_text(encoding="utf-8")
    end = 1 + text.splitlines().index(next(line for line in text.splitlines() if "# That was the engine." in line))
    assert minigrad.__doc__ is not None
    assert f"the first {end} lines of `tensor.py`" in minigrad.__doc__


def test_the_counts_in_the_table_of_trust_are_those_of_the_tests():
    text = README.read_text(encoding="utf-8")
    assert f"| {len(mutants.MUTANTS)}: all noticed |" in text
    assert f"| {len(test_wrong_calls.ROWS)} calls under {len(test_wrong_calls.WRONG)} headings |" in text
