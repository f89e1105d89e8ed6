"""Files: everything comes back as it was, or there is an error; nothing in a file is ever run."""

import io
import json
import math
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, load, save, tensor

SMALL = {"w": tensor([[1.5, -2.0]]), "step": 3, "name": "α", "ids": [tensor([7, 8]), (True, None, 0.5)]}


def plain(obj: Any) -> Any:
    """A structure with (dtype, shape, bytes) in place of tensors, so that == compares exactly."""
    if isinstance(obj, Tensor | np.ndarray):
        array = obj.data if isinstance(obj, Tensor) else obj
        return ("tensor", str(array.dtype), array.shape, array.tobytes())
    if isinstance(obj, dict):
        return {k: plain(v) for k, v in obj.items()}
    if isinstance(obj, list | tuple):
        return type(obj)(plain(v) for v in obj)
    return obj


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.npz"


@pytest.mark.parametrize(
    "obj",
    [
        tensor([1.0, 2.0]),
        tensor(2.5),
        tensor([]),
        minigrad.zeros(2, 0, 3),
        tensor(np.array([math.nan, -math.inf, -0.0, 5e-324])),
        tensor([True, False]),
        tensor(np.arange(3, dtype=np.uint8)),
        tensor([[1.0, 2.0], [3.0, 4.0]]).T,
        minigrad.ones(3).expand(2, 3),
        minigrad.arange(12).reshape(3, 4)[:, ::2],
        np.arange(3),
        SMALL,
        {},
        [],
        (),
        None,
        3,
        -(2**70),
        0.1,
        math.inf,
        "text\n\0 \ud800 é",
        {"": 1, "a/b": tensor([1]), "a": {"b": tensor([2]), "b'": tensor([3])}, "tensor": {"value": [{"dict": ()}]}},
        [[tensor(1)], (tensor(2), [tensor(3), {}]), {"0": tensor(4)}],
        {"structure.json": tensor([1.0]), "structure": tensor([2.0])},
    ],
)
def test_a_structure_comes_back_exactly(obj: Any, path: Path) -> None:
    save(obj, path)
    got = load(path)
    assert plain(got) == plain(obj)
    assert type(got) is (Tensor if isinstance(obj, np.ndarray) else type(obj))
    save(got, path)
    assert plain(load(path)) == plain(obj)


def test_nan_and_numpy_numbers_come_back_as_python_numbers(path: Path) -> None:
    save([math.nan, np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True)], path)
    nan, *others = load(path)
    assert math.isnan(nan)
    assert [(x, type(x)) for x in others] == [(0.5, float), (0.5, float), (3, int), (True, bool)]


def test_parameters_are_saved_as_numbers_and_what_was_computed_too(path: Path) -> None:
    w = tensor([1.0, 2.0], requires_grad=True)
    save([w, w * 2], path)
    a, b = load(path)
    assert (a.tolist(), b.tolist()) == ([1, 2], [2, 4])
    assert not a.requires_grad
    assert a.is_leaf


def test_the_path_may_be_a_string_and_needs_no_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(SMALL, "checkpoint")
    assert os.listdir(tmp_path) == ["checkpoint"]
    assert plain(load("checkpoint")) == plain(SMALL)


def test_numpy_reads_our_files_and_we_read_numpys(path: Path) -> None:
    save({"layer": {"w": tensor([[1.0, 2.0]])}, "list": [tensor([3])]}, path)
    with np.load(path) as arrays:
        assert {k: arrays[k].tolist() for k in arrays.files if k != "structure.json"} == {"layer/w": [[1, 2]], "list/0": [3]}
    np.savez(path, w=np.ones((2, 3), np.float32), b=np.arange(3))
    assert plain(load(path)) == plain({"w": np.ones((2, 3), np.float32), "b": np.arange(3)})
    np.savez_compressed(path, w=np.zeros(1000))
    assert load(path)["w"].shape == (1000,)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_new_file_has_the_permissions_of_any_new_file(path: Path) -> None:
    old = os.umask(0o022)
    try:
        save(SMALL, path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


# Whole or not at all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (object(), "object"),
        ({"a": {"b": object()}}, "a/b"),
        ({"a": [1, {2, 3}]}, "a/1"),
        ({1: "x"}, "dict"),
        (b"bytes", "bytes"),
        ([lambda: 1], "function"),
        ({"ok": tensor([1.0]), "bad": np.array(["text"])}, "dtype"),
        (np.array([object()]), r"dtype\('O'\)"),
        (1j, "complex"),
    ],
)
def test_what_cannot_be_saved_is_an_error_that_says_where_and_the_old_file_stays(obj: Any, words: str, path: Path) -> None:
    save(SMALL, path)
    with pytest.raises(TypeError, match=words):
        save(obj, path)
    assert plain(load(path)) == plain(SMALL)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("module", "name"), [(np.lib.format, "write_array"), (zipfile.ZipFile, "writestr"), (os, "fsync"), (os, "replace")]
)
def test_a_save_that_fails_leaves_the_old_file_whole_and_nothing_beside_it(
    module: Any, name: str, error: BaseException, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    save(SMALL, path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, fail)
        with pytest.raises(type(error)):
            save([tensor([9.0])], path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    save([tensor([9.0])], path)
    assert load(path)[0].tolist() == [9]


def test_a_directory_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    for call in (lambda p: save(SMALL, p), load):
        with pytest.raises(FileNotFoundError):
            call(tmp_path / "nowhere" / "file")


def test_a_file_cut_off_at_any_byte_is_an_error(path: Path) -> None:
    save(SMALL, path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=path.name):
            load(path)
    path.write_bytes(whole)
    assert plain(load(path)) == plain(SMALL)


def test_a_flipped_bit_anywhere_is_an_error_or_does_no_harm(path: Path) -> None:
    save(SMALL, path)
    whole, expected = path.read_bytes(), plain(SMALL)
    rng, noticed = np.random.default_rng(0), 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            got = load(path)
        except ValueError:
            noticed += 1
        else:
            assert plain(got) == expected, place
    assert noticed > len(whole) / 2


# Foreign files ------------------------------------------------------------------------------------------------


class Trap:
    """Unpickling one of these calls a function."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("something in the file was run",)


def zipped(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FOREIGN: dict[str, Any] = {
    "empty": lambda p: p.write_bytes(b""),
    "text": lambda p: p.write_text("hello"),
    "pickle": lambda p: p.write_bytes(pickle.dumps(Trap())),
    "pickle in a zip": lambda p: zipped(p, data_pkl=pickle.dumps(Trap()), w_npy=pickle.dumps(Trap())),
    "array of objects": lambda p: np.savez(p, w=np.array([Trap()], object), allow_pickle=True),
    "array of text": lambda p: np.savez(p, w=np.array(["a"])),
    "array of complex numbers": lambda p: np.savez(p, w=np.array([1j])),
    "array of float16": lambda p: np.savez(p, w=np.array([1.0], np.float16)),
    "single npy": lambda p: p.write_bytes(npy(np.ones(3))),
    "bytes behind an array": lambda p: zipped(p, w_npy=npy(np.ones(3)) + b"more"),
    "array under a foreign name": lambda p: zipped(p, w_bin=npy(np.ones(3))),
    "array cut off": lambda p: zipped(p, w_npy=npy(np.ones(3))[:-1]),
    "broken structure": lambda p: zipped(p, structure_json=b"{"),
    "structure of nothing": lambda p: zipped(p, structure_json=b"[]"),
    "structure with an unknown kind": lambda p: zipped(p, structure_json=json.dumps({"code": "1"}).encode()),
    "structure without its arrays": lambda p: zipped(p, structure_json=json.dumps({"tensor": "w"}).encode()),
    "structure too deep": lambda p: zipped(p, structure_json=b'{"list":[' * 100_000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_with_a_sentence_and_never_run(kind: str, path: Path) -> None:
    FOREIGN[kind](path)
    with pytest.raises(ValueError, match=r"file\.npz is not a whole file of minigrad\.save"):
        load(path)


def test_a_file_of_pytorch_is_refused(torch: Any, path: Path) -> None:
    torch.save({"w": torch.ones(3)}, path)
    with pytest.raises(ValueError, match=r"not a whole file of minigrad\.save"):
        load(path)
