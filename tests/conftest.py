import os
from types import ModuleType

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: matrices this small lose time in threads

import numpy as np
import pytest

import minigrad


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-lessons", action="store_true", help="what takes long too: all lessons, whole programs, ten seeds of train.py")
    parser.addoption("--all-seeds", action="store_true", help="run every lesson with seeds 0 to 19 (some ten minutes)")


SLOW = ("test_char_model.py", "test_benchmark.py", "test_mutants.py")  # whole programs: half a minute of the two that all tests take


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in SLOW and not config.getoption("--all-lessons"):
            item.add_marker(pytest.mark.skip(reason="runs whole programs: needs --all-lessons, as in .ci/run"))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Weights and dropout too are the same in every run of a test, alone or among others."""
    minigrad.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run of a test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch as a second witness; a test that asks for it is skipped where it isn't installed."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def torch_or_none() -> ModuleType | None:
    """PyTorch where it is installed, for tests that have other witnesses."""
    try:
        import torch
    except ImportError:
        return None
    return torch
