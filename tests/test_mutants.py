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
            compile(mutant.text(ROOT), mutant.file, "exec")
        except (ValueError, SyntaxError) as error:
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
        ("def test_it():\n    while True: pass", "hangs: not ready after 3 s"),
    ],
    ids=["passes", "fails", "needs PyTorch", "hangs"],
)
def test_the_runner_tells_what_failed(test, failure, tmp_path):
    assert first_failure(project(test, tmp_path), limit=3 if "hangs" in failure else None) == failure


@pytest.mark.parametrize("test", ["import nothing", "import os; os._exit(1)"], ids=["can't be imported", "is killed"])
def test_the_runner_takes_no_other_end_for_a_failure(test, tmp_path):
    with pytest.raises(RuntimeError, match="no test failed"):
        first_failure(project(test, tmp_path))


def project(test, folder):
    for path in (copied(folder) / "tests").glob("test_*.py"):
        path.unlink()
    (folder / "tests/test_ops.py").write_text(test, encoding="utf-8")
    return folder
