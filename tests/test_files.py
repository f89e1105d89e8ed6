"""Files under attack: killed writers, links, foreign permissions, damage and bombs. What is saved, and how, is in test_serialization.py."""

import functools
import io
import os
import stat
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak

from minigrad import load, save, tensor

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.npz"


# Killed, and in a hurry ---------------------------------------------------------------------------------------


@posix
def test_a_killed_writer_leaves_the_old_file_or_the_new_one_whole() -> None:
    command = [sys.executable, soak.__file__, "kill", "--n", "15"]  # a process of its own: this one may have threads, and mustn't fork
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "'whole files': 15" in done.stdout


def test_a_changed_byte_or_a_cut_is_an_error_or_harmless(tmp_path: Path) -> None:
    counts = soak.flips(200, tmp_path, stride=7)
    assert counts["refused"] == counts["cut off"] > 100
    assert counts["noticed"] > 100


def test_what_a_killed_writer_left_goes_when_it_is_old(path: Path) -> None:
    save(1, path)
    names = ["file.npz.0123abcd.saving", "file.npz.89abcdef.saving", "file.npz.notours.saving", "other.npz.0123abcd.saving"]
    for name in names:
        path.with_name(name).write_bytes(b"half a file")
    for name in names[1:]:
        os.utime(path.with_name(name), (time.time() - 3600,) * 2)
    save(2, path)
    assert sorted(os.listdir(path.parent)) == sorted(["file.npz", names[0], *names[2:]])  # the first may be somebody's still


def test_two_threads_may_save_to_one_path(path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            save(soak.checkpoint(number), path)

    threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    save(soak.checkpoint(0), path)
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert soak.number_in(path) in (0, 1, 2)
    assert soak.number_in(path) in (1, 2)
    assert os.listdir(path.parent) == [path.name]


@posix
def test_first_the_file_is_on_the_disk_then_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size} bytes")
        fsync(handle)

    def noted_replace(a: str, b: str) -> None:
        done.append("rename")
        replace(a, b)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    save(tensor([1.0]), path)
    assert done == [f"file of {path.stat().st_size} bytes", "rename", "directory"]


def test_the_same_content_is_the_same_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(soak.checkpoint(1), path)
    before = path.read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    save(soak.checkpoint(1), path)
    assert path.read_bytes() == before


# Links, permissions, things that are no files -----------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(path: Path, mode: int) -> None:
    save(1, path)
    path.chmod(mode)
    save(2, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert load(path) == 2


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_saving_through_a_link_writes_the_file_it_leads_to(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    if exists:
        save(1, target)
    link.symlink_to(Path("there") / "target")
    save(2, link)
    assert link.is_symlink()
    assert load(target) == load(link) == 2
    assert sorted(os.listdir(tmp_path)) + os.listdir(tmp_path / "there") == ["link", "there", "target"]


@posix
def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path, Path(os.devnull)):
        kind = stat.S_IFMT(place.stat().st_mode)
        with pytest.raises(OSError, match="is not a file that could be replaced"):
            save(1, place)
        assert stat.S_IFMT(place.stat().st_mode) == kind
    assert os.listdir(tmp_path) == ["pipe"]


# Bombs and absurd headers -------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", content)


@functools.cache
def deflated() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("w.npy", "w", force_zip64=True) as member:
        member.write(npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**24},)}}"))
        for _ in range(80):
            member.write(bytes(2**20))  # 80 MiB of zeros in 80 KiB
    return data.getvalue()


def modest(path: Path) -> None:
    """A bomb whose table of contents says that it is small."""
    content = deflated()
    place = content.rindex(b"PK\x01\x02") + 24
    path.write_bytes(content[:place] + struct.pack("<I", 1000) + content[place + 4 :])


def overlapping(path: Path) -> None:
    """One member under a hundred names."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1048576,)}", bytes(2**23)))
        info = archive.infolist()[0]
        archive.filelist += [info] * 100
    path.write_bytes(data.getvalue())


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}}}".format
ABSURD: dict[str, Callable[[Path], Any]] = {
    "8 TB": lambda p: zipped(p, npy(HEADER("<f8", f"({10**12},)"), bytes(24))),
    "more than 64 bits": lambda p: zipped(p, npy(HEADER("<f8", f"({2**62}, 4)"), bytes(24))),
    "a length below 0": lambda p: zipped(p, npy(HEADER("<f8", "(-1,)"), bytes(24))),
    "a length that is no number": lambda p: zipped(p, npy(HEADER("<f8", "('a',)"))),
    "objects": lambda p: zipped(p, npy(HEADER("|O", "(1,)"), b"cos\nsystem\n(S'true'\ntR.")),
    "records": lambda p: zipped(p, npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", bytes(8))),
    "other byte order": lambda p: zipped(p, npy(HEADER(">f8", "(1,)"), bytes(8))),
    "code in the header": lambda p: zipped(p, npy("__import__('os').system('true')")),
    "brackets": lambda p: zipped(p, npy("(" * 5000)),
    "version 9": lambda p: zipped(p, b"\x93NUMPY\x09\x00" + bytes(64)),
    "a bomb": lambda p: p.write_bytes(deflated()),
    "a bomb that says it is small": modest,
    "one member a hundred times": overlapping,
}


def peak() -> int:
    """The most memory that this process ever had, in KiB (0 where nobody counts)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if resource else 0


@pytest.mark.parametrize("kind", ABSURD)
def test_absurd_files_are_refused_at_once_and_cheaply(kind: str, path: Path) -> None:
    ABSURD[kind](path)
    before, begin = peak(), time.perf_counter()
    with pytest.raises(ValueError, match=r"file\.npz is not a whole file of minigrad\.save"):
        load(path)
    assert time.perf_counter() - begin < 2
    assert peak() - before < 64 * 1024


def test_what_compresses_well_is_no_bomb(path: Path) -> None:
    np.savez_compressed(path, w=np.zeros(2**20))
    assert load(path)["w"].shape == (2**20,)
