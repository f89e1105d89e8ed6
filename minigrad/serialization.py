"""Saving tensors: an .npz file (a zip of plain NumPy arrays), written whole or not at all. Nothing in it is ever run.

`np.load(path)` reads the same file without minigrad. Beside the arrays it holds `structure.json`, which says how dicts,
lists, numbers and strings were nested around them, so a checkpoint {"model": ..., "optimizer": ..., "step": 3} comes back.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import zipfile
from typing import IO, Any

import numpy as np

from .arguments import dtype_of, short
from .ops import Array
from .tensor import Tensor, wrap

_STRUCTURE = "structure.json"


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write tensors, arrays, numbers, strings, None, and dicts (with string keys), lists and tuples of them, to a file.

    The file is written beside `path`, flushed to the disk and renamed: whatever happens, `path` is the old file or the new. It
    keeps the old one's permissions; of a link, it is the file that the link leads to. A process that is killed while it saves
    leaves a `path.xxxxxxxx.saving` behind, which a later save to the same path removes.
    """
    arrays: dict[str, Array] = {}
    structure = json.dumps(_taken_apart(obj, "", arrays)).encode()
    path = os.path.realpath(_checked(path))
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"save: there is no directory {os.path.dirname(path)}")
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null would become a file
        raise OSError(f"save: {path} is not a file that could be replaced")
    aside = f"{path}.{os.urandom(4).hex()}.saving"
    try:
        with open(aside, "xb") as file:  # not tempfile's, which nobody else may read
            with contextlib.suppress(FileNotFoundError):
                os.chmod(aside, os.stat(path).st_mode)
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in arrays.items():
                    with archive.open(name + ".npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(_STRUCTURE), structure)  # without the time: the same content is the same file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise
    _settle(path)


def _settle(path: str) -> None:
    with contextlib.suppress(OSError):  # Windows can't open a directory
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(directory)  # the new name too must survive a power cut
        finally:
            os.close(directory)
    for left in glob.glob(f"{glob.escape(path)}.{'[0-9a-f]' * 8}.saving"):
        with contextlib.suppress(OSError):  # another process may remove it too
            if os.stat(left).st_mtime < os.stat(path).st_mtime - 600:  # nobody has written to it for ten minutes
                os.unlink(left)


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote, with arrays as tensors. A ValueError for any file that is not whole or not such a file."""
    with open(_checked(path), "rb") as file:  # not there or not readable: an OSError
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive, file)
        except Exception as error:
            raise ValueError(f"{os.fspath(path)} is not a whole file of minigrad.save (or np.savez): {error}") from None


def _read(archive: zipfile.ZipFile, file: IO[bytes]) -> Any:
    infos, size = archive.infolist(), file.seek(0, os.SEEK_END)
    names, packed, unpacked = [i.filename for i in infos], sum(i.compress_size for i in infos), sum(i.file_size for i in infos)
    if packed > size or unpacked > 100 * size + 2**26:
        raise ValueError(f"its {size} bytes would unpack to {unpacked}")
    if any(n != _STRUCTURE and not n.endswith(".npy") for n in names):
        raise ValueError(f"it should hold arrays (.npy) and {_STRUCTURE}, and holds {short(names)}")
    file.seek(-12 - len(archive.comment), os.SEEK_END)  # the zip's own count of its members, which zipfile doesn't check
    if int.from_bytes(file.read(2), "little") != min(len(names), 2**16 - 1):
        raise ValueError("its table of contents is damaged")

    def content(name: str) -> bytes:
        with archive.open(name) as member:
            return member.read(archive.getinfo(name).file_size)  # no more than it says, however much comes out

    arrays = {n.removesuffix(".npy"): _array(content(n)) for n in names if n != _STRUCTURE}
    structure = json.loads(content(_STRUCTURE)) if _STRUCTURE in names else {"dict": {n: {"tensor": n} for n in arrays}}
    return _put_together(structure, arrays)


def _checked(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:  # open() would take an int for a file that is open already
        raise TypeError(f"save(obj, path), load(path): the path must be a string or a pathlib.Path, got {short(path)}") from None


def _array(content: bytes) -> Array:
    file = io.BytesIO(content)
    array = np.lib.format.read_array(file, allow_pickle=False)
    dtype_of(array.dtype)
    if file.read(1):
        raise ValueError("there are bytes left behind an array")
    return array


def _taken_apart(obj: Any, name: str, arrays: dict[str, Array]) -> Any:
    """The nesting around the arrays as JSON; each array goes into `arrays` under its path in the nesting."""
    if isinstance(obj, Tensor | np.ndarray):
        array = obj.data if isinstance(obj, Tensor) else obj
        dtype_of(array.dtype)
        name = name or "tensor"
        while name in arrays:  # {"a/b": x, "a": {"b": y}}
            name += "'"
        arrays[name] = array
        return {"tensor": name}
    if isinstance(obj, np.generic):
        obj = obj.item()
    if obj is None or isinstance(obj, bool | int | float | str):
        return {"value": obj}
    if isinstance(obj, dict) and all(isinstance(k, str) for k in obj):
        return {"dict": {k: _taken_apart(v, f"{name}/{k}" if name else k, arrays) for k, v in obj.items()}}
    if isinstance(obj, list | tuple):
        kind = "list" if isinstance(obj, list) else "tuple"
        return {kind: [_taken_apart(v, f"{name}/{i}" if name else str(i), arrays) for i, v in enumerate(obj)]}
    raise TypeError(
        f"save: can't write {short(obj)} at {name or 'the top'}: only tensors, numbers, strings, and lists and dicts (with string keys) "
        "of them; of a module or an optimizer, save its state_dict()"
    )


def _put_together(node: dict[str, Any], arrays: dict[str, Array]) -> Any:
    ((kind, content),) = node.items()
    if kind == "tensor":
        return wrap(arrays[content])
    if kind == "value":
        return content
    if kind == "dict":
        return {k: _put_together(v, arrays) for k, v in content.items()}
    items = [_put_together(v, arrays) for v in content]
    return tuple(items) if kind == "tuple" else items
