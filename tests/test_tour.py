"""The tour, examples/README*.md, in every language: its programs run, what it says they print is what they print, its links lead somewhere.

run.py and the first lesson run here; all lessons with --all-lessons. Training makes rounding differences between machines larger, so
the output of a lesson is compared like this: all text must be equal, numbers may differ by 5 % + 0.03, and the cells of heat maps
that aren't blank by one grey of ten on average. (Measured with the kernels of five kinds of processor: see SLACK.)
"""

import ast
import contextlib
import functools
import io
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("README*.md"))
TEXT = {file.name: file.read_text(encoding="utf-8") for file in FILES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
BLOCKS = {name: BLOCK.findall(text) for name, text in TEXT.items()}
LESSONS = sorted(file.stem for file in (EXAMPLES / "lessons").glob("[0-9][0-9]_*.py"))
QUICK = ("run", "01_chain_rule")
NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan)")
GREYS = " .:-=+*#%@"
SLACK = {"09_depth": 0.15}  # 500 large steps: the first block's weight on the letter before is 0.68 to 0.74, depending on the processor

first = next(iter(BLOCKS))
languages = pytest.mark.parametrize("name", TEXT)


def pairs(name, kind):
    """The blocks of this kind that have an output, and the output: the text block below."""
    return [(code, out) for (k, code), (below, out) in itertools.pairwise(BLOCKS[name]) if (k, below) == (kind, "text")]


def sections(name):
    """A heading's text -> what stands below it, down to the next heading of the same kind or a higher one."""
    parts = re.split(r"^## (.*)$", BLOCK.sub(lambda m: m[0].replace("\n#", "\n "), TEXT[name]), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def lessons(name):
    """A lesson's script -> its section of the tour."""
    found = [(re.search(r"^python examples/lessons/(\d\d_\w+)\.py\n```\n\n```text", text, re.M), text) for text in sections(name).values()]
    return {match[1]: text for match, text in found if match}


# Comparing outputs ----------------------------------------------------------------------------------------------


def taken_apart(printed):
    """(text with holes, the numbers and greys that were in the holes). Widths of columns are of no account."""
    lines, numbers = [], []

    def cells(match):
        numbers.extend(("grey", GREYS.index(c)) for c in match[1][::2])
        return f"|{len(match[1])} cells|"

    def number(match):
        numbers.append(("number", float(match[0])))
        return "#"

    for line in printed.splitlines():
        line = re.sub(r"\|((?:[ .:\-=+*#%@]{2}){8,})\|", cells, line)
        line = re.sub(r"^( +\d+  )\.[ .1o53A]*$", r"\1(marks of a plot)", line)  # lesson 3
        line = re.sub(r"-{4,}", "----", line)
        lines.append(re.sub(r" {2,}", "  ", NUMBER.sub(number, line)))
    return "\n".join(lines), numbers


def differences(got, expected, slack=0.03):
    (text, numbers), (other_text, other_numbers) = taken_apart(got), taken_apart(expected)
    if text != other_text:
        ours, others = text.splitlines(), other_text.splitlines()
        return [(a, b) for a, b in zip(ours, others, strict=False) if a != b] or [(f"{len(ours)} lines", f"{len(others)} lines")]
    both = [(kind, a, b) for (kind, a), (_, b) in zip(numbers, other_numbers, strict=True)]
    greys = [abs(a - b) for kind, a, b in both if kind == "grey" and a + b]
    far = [("greys apart", sum(greys) / len(greys))] if sum(greys) > len(greys) else []
    return far + [(a, b) for kind, a, b in both if kind == "number" and a != pytest.approx(b, rel=0.05, abs=slack, nan_ok=True)]


@pytest.fixture(scope="module")
def run(request, tmp_path_factory):
    """run("01_chain_rule") -> what the script prints, and the picture that it draws. Slow ones only if asked for."""
    folder = tmp_path_factory.mktemp("pictures")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONIOENCODING": "utf-8"}

    @functools.cache
    def run(stem):
        if stem not in QUICK and not request.config.getoption("--all-lessons"):
            pytest.skip("needs --all-lessons")
        picture = folder / f"{stem}.svg"
        script = ["run.py"] if stem == "run" else [f"lessons/{stem}.py", "--plot", str(picture)]
        command = [sys.executable, "-W", "error", str(EXAMPLES / script[0]), *script[1:]]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, cwd=folder, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.replace(f"  picture: {picture}\n", ""), picture

    return run


# Programs and their output --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "number"), [(name, i) for name in TEXT for i in range(len(pairs(name, "python")))])
def test_a_program_prints_what_stands_below_it(name, number):
    code, expected = pairs(name, "python")[number]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), {})
    assert printed.getvalue() == expected


@languages
def test_every_program_and_every_lesson_has_its_output(name):
    assert len(pairs(name, "python")) == sum(kind == "python" for kind, _ in BLOCKS[name]) >= 4
    commands = [code for code, _ in pairs(name, "sh")]
    assert commands == [f"python examples/lessons/{stem}.py\n" for stem in LESSONS] + ["python examples/run.py\n"]
    assert {kind for kind, _ in BLOCKS[name]} == {"python", "sh", "text"}


@languages
@pytest.mark.parametrize("stem", ["run", *LESSONS])
def test_a_script_prints_what_the_tour_shows(name, stem, run):
    expected = next(out for command, out in pairs(name, "sh") if f"/{stem}.py" in command)
    assert differences(run(stem)[0], expected, SLACK.get(stem, 0.03)) == []


def test_the_comparison_finds_what_it_should():
    shown = "  mask  0.820  1e-12 (>= 98%)\n" + " a |" + "@@" * 8 + "|\n  99  .     1o   A\n"
    assert differences(shown, shown) == []
    assert differences(shown.replace("0.820", " 0.86"), shown) == []
    assert differences(shown.replace("0.820", "0.900"), shown) == [(0.9, 0.82)]
    assert differences(shown.replace("98", "90"), shown) == [(90.0, 98.0)]
    assert differences(shown.replace("mask", "no mask"), shown) != []
    assert differences(shown.replace("@@" * 8, "%%" * 8), shown) == []
    assert differences(shown.replace("@@" * 8, "  " + "@@" * 7), shown) == [("greys apart", 9 / 8)]
    assert differences(shown + "  [ok]\n", shown) == [("4 lines", "3 lines")]


# The text -------------------------------------------------------------------------------------------------------


@languages
def test_all_lessons_are_there_in_order_with_five_questions_each(name):
    assert list(lessons(name)) == LESSONS
    for stem, text in lessons(name).items():
        questions = re.findall(r"^(\d)\. \S.+?<details><summary>\S.*?</summary>\n\n(.+?)</details>$", text, re.M | re.S)
        assert [number for number, _ in questions] == list("12345"), stem
        assert all(answer.strip() for _, answer in questions), stem
        assert text.count("<details>") == text.count("</details>") == 5, stem
        assert f"](figures/{stem}.svg)" in text
        assert f"](lessons/{stem}.py)" in text


@languages
def test_numbers_in_the_prose_of_a_lesson_are_on_the_screen(name):
    for stem, text in lessons(name).items():
        screen = "".join(block for _, block in BLOCK.findall(text))
        prose = re.split(r"^1\. ", re.sub(r"!?\[.*?\]\(.*?\)", "", BLOCK.sub("", text)), flags=re.M)[0]  # all before the questions
        said = re.findall(r"(?<![\d.])\d+\.\d+(?:e[+-]?\d+)?|\d+(?:\.\d+)?%", prose)
        assert [number for number in said if number not in screen] == [], stem


def tables(name):
    """The numbers of each row of each table, in any order."""
    rows = re.findall(r"^\|(.*)\|$", BLOCK.sub("", TEXT[name]), re.M)
    return [sorted(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", re.sub(r"\]\(.*?\)", "", row))) for row in rows]


@languages
def test_all_languages_say_the_same(name):
    def same(blocks):  # comments in a program may be translated
        return [(kind, ast.dump(ast.parse(block)) if kind == "python" else block) for kind, block in blocks]

    assert same(BLOCKS[name]) == same(BLOCKS[first])
    assert tables(name) == tables(first)
    assert re.findall(r"!\[.*?\]\((.*?)\)", TEXT[name]) == re.findall(r"!\[.*?\]\((.*?)\)", TEXT[first])
    assert all(f"]({other})" in TEXT[name] for other in TEXT if other != name)


@languages
def test_the_corrections_are_complete(name):
    table = list(sections(name).values())[-2]
    assert re.findall(r"^\| (\d+) \| [^|]+ \| [^|]+ \| [^|]+ \|$", table, re.M) == [str(i) for i in range(1, 18)]


@languages
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", TEXT[name]))
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", TEXT[name]), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert len(links) > 40
    assert [link for link in links if not link.startswith("#") and not (EXAMPLES / link).exists()] == []
    assert [link for link in links if link.startswith("#") and link[1:] not in anchors] == []


# Pictures -------------------------------------------------------------------------------------------------------


def drawn(file):
    """(texts that are not numbers, {square: colour}, points of the lines)."""
    root = ElementTree.parse(file).getroot()
    texts = [e.text for e in root.findall(".//{*}text") if e.text and not NUMBER.fullmatch(e.text)]
    squares = {(e.attrib["x"], e.attrib["y"]): float(e.attrib["fill-opacity"]) for e in root.findall(".//{*}rect[@class='w']")}
    return texts, squares, [float(v) for e in root.findall(".//{*}path") for v in re.findall(r"[\d.]+", e.attrib["d"])]


@pytest.mark.parametrize("stem", LESSONS)
def test_a_picture_is_there_and_small_and_has_text(stem):
    file = EXAMPLES / "figures" / f"{stem}.svg"
    assert file.stat().st_size < 60_000
    assert "<text" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("stem", LESSONS)
def test_a_picture_is_what_the_script_draws(stem, run):
    texts, squares, lines = drawn(run(stem)[1])
    old_texts, old_squares, old_lines = drawn(EXAMPLES / "figures" / f"{stem}.svg")
    assert differences("\n".join(texts), "\n".join(old_texts)) == []
    places = squares.keys() | old_squares.keys()  # a square that isn't drawn has no colour
    assert sum(abs(squares.get(place, 0) - old_squares.get(place, 0)) for place in places) <= 0.1 * len(places)
    assert lines == pytest.approx(old_lines, abs=15)  # of some 300 points
