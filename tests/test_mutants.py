"""The table of planted bugs fits the code it is about, and its runner tells a test that notices from one that doesn't.

The run itself takes longer than all other tests: python tests/mutants.py
"""

import pytest
from mutants import FIRST, MUTANTS, ROOT, copied, first_failure


def test_the_table_fits_the_code():
    misfits = []
    for mutant in MUTANTS:
        try:
            assert mutant.text(ROOT) != (ROOT / mutant.file).read_text(encoding="utf-8")
        except ValueError as error:
            misfits.append(str(error))
    assert not misfits


def test_the_table_is_as_large_as_promised():
    assert len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS) >= 70
    assert all(m.breaks and "\n" not in m.old.strip("\n") + m.new.strip("\n") for m in MUTANTS)
    assert {m.file for m in MUTANTS} == set(FIRST)


@pytest.mark.parametrize(
    ("test", "failure"),
    [
        ("def test_it(): assert True", ""),
        ("def test_it(): assert 1 - 1", "tests/test_ops.py::test_it"),
        ("def test_it(): import torch", "tests/test_ops.py::test_it"),
        ("import nothing", "tests/test_ops.py"),
        ("def test_it():\n    while True: pass", "hangs: not ready after 3 s"),
    ],
    ids=["passes", "fails", "needs PyTorch", "can't be imported", "hangs"],
)
def test_the_runner_tells_what_failed(test, failure, tmp_path):
    for path in (copied(tmp_path) / "tests").glob("test_*.py"):
        path.unlink()
    (tmp_path / "tests/test_ops.py").write_text(test, encoding="utf-8")
    assert first_failure(tmp_path, limit=3 if "hangs" in failure else None) == failure
