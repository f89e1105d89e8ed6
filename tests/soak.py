"""Long runs on demand: what a user only meets after a week. The test suite runs the same code for a shorter time.

    python tests/soak.py memory          10,000 training steps without the garbage collector: does resident memory grow?
    python tests/soak.py depth           graphs of 1,000,000 nodes, forward, backward and freed
    python tests/soak.py interrupt       Ctrl-C at 10,000 random moments of a training that goes on after each
    python tests/soak.py everywhere      Ctrl-C before each single bytecode instruction of a step, of zero_grad, of loading
    python tests/soak.py kill            SIGKILL at 200 random moments while files are saved
    python tests/soak.py flips           1,000 random bytes of a file changed, and the file cut off at each byte
    python tests/soak.py edges           the largest float32 errors of test_edges.py, as it counts them

--n N changes the number. Each prints what it found and ends with an error if a promise was broken.
"""

import argparse
import contextlib
import gc
import hashlib
import itertools
import math
import os
import signal
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: a process with threads must not fork
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, installed or not

import numpy as np

import layers as nn
import layers.functional as F
import minigrad
from minigrad import Tensor


class Model(nn.Module):
    """ids (b, t) -> logits (b, t, 11): an embedding, a layer of attention, and a read-out."""

    def __init__(self) -> None:
        self.token, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.attention, self.head = nn.MultiHeadAttention(8, 2), nn.Linear(8, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)  # (b, t, 8)
        logits: Tensor = self.head(x + self.attention(self.norm(x)))  # (b, t, 11)
        return logits


class Smaller(nn.Linear):
    """ids (b, t) -> logits (b, t, 11): each token guesses from itself alone."""

    def __init__(self) -> None:
        super().__init__(11, 11)

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(F.one_hot(ids, 11).float())


class Training:
    """A small training that is the same every time: the batch of step i depends on i alone."""

    def __init__(self, seed: int = 0, model: Callable[[], nn.Module] = Model) -> None:
        minigrad.manual_seed(seed)
        self.model = model()
        self.optimizer = minigrad.optim.Adam(self.model.parameters(), lr=1e-2)
        self.losses: list[Tensor] = []

    @property
    def steps(self) -> int:
        """The steps that every parameter has taken; an error if they don't agree."""
        (steps,) = {self.optimizer.state.get(p, {}).get("step", 0) for p in self.model.parameters()}
        return int(steps)

    def loss(self) -> Tensor:
        ids = minigrad.tensor(np.random.default_rng(self.steps).integers(0, 11, (3, 7)))
        return F.cross_entropy(self.model(ids).reshape(-1, 11), ids.reshape(-1))

    def step(self) -> float:
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        with minigrad.no_grad():
            return self.loss().item()

    def numbers(self) -> list[Any]:
        """All that a step may change, byte by byte."""
        found: list[Any] = [{**group, "params": None} for group in self.optimizer.param_groups]
        for p in self.model.parameters():
            state = self.optimizer.state.get(p, {})
            found += [p.data.tobytes(), None if p.grad is None else p.grad.data.tobytes()]
            found += [x.tobytes() if isinstance(x, np.ndarray) else x for x in state.values()]
        return found


def fingerprint(directory: Path) -> str:
    """Of all that a seed decides: random numbers, a training, and the file in which they are saved."""
    training = Training(3)
    for _ in range(5):
        training.step()
    draws = [minigrad.rand(5), minigrad.randn(5), minigrad.randperm(9), minigrad.multinomial(minigrad.ones(7), 5)]
    parts = {"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}
    minigrad.save({**parts, "draws": draws, "dropped": F.dropout(minigrad.ones(9))}, directory / "all")
    return hashlib.sha256((directory / "all").read_bytes()).hexdigest()


# Memory and depth ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Everything must be freed by reference counts alone."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def resident() -> int:
    """Bytes of memory that this process has now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tensors() -> int:
    """How many tensors and modules are alive."""
    return sum(issubclass(type(thing), Tensor | nn.Module) for thing in gc.get_objects())  # not isinstance: it asks lazy modules


def memory(n: int) -> tuple[int, int]:
    """What n training steps add after a tenth of them to warm up: bytes of resident memory, and living tensors."""
    training = Training()
    with no_collector():
        for _ in range(max(1, n // 10)):
            training.step()
        before, alive = resident(), tensors()
        for _ in range(n):
            training.step()
        return resident() - before, tensors() - alive


def chain(x: Tensor, n: int) -> Tensor:
    """n ops, one after the other; slope 1."""
    for _ in range(n):
        x = x + 1.0
    return x


def fan(x: Tensor, n: int) -> Tensor:
    """One tensor, used by n / 2 ops whose sum is taken; slope 1."""
    y = x * (2.0 / n)
    for _ in range(n // 2 - 1):
        y = y + x * (2.0 / n)
    return y


def ladder(x: Tensor, n: int) -> Tensor:
    """n / 4 rungs with two ways on each, so 2**(n / 4) paths; slope 1."""
    for _ in range(n // 4):
        x = x * 0.25 + x * 0.75 + 1.0
    return x


def depth(graph: Callable[[Tensor, int], Tensor], n: int) -> float:
    """Build a graph of n nodes, walk it and drop it; the slope that comes out. All without the garbage collector."""
    x = minigrad.tensor(np.float64(1.0), requires_grad=True)
    with no_collector():
        alive = tensors()
        y = graph(x, n)
        made = tensors() - alive
        assert abs(made - n) <= 4, made
        y.backward(retain_graph=True)
        watched = weakref.ref(y)
        del y
        assert watched() is None
        assert tensors() == alive + 1  # the gradient
    assert x.grad is not None
    return float(x.grad.item())


# Interrupted --------------------------------------------------------------------------------------------------


def recording() -> bool:
    """Whether a graph is recorded: no no_grad() was left on."""
    return (minigrad.ones(1, requires_grad=True) * 2).requires_grad


def interrupt(n: int) -> dict[str, int]:
    """Train while Ctrl-C comes n times, at random moments; a step that it stopped is done again. Then the same steps without.

    One moment can't be guarded in Python: the first instruction of an __exit__. There no_grad() stays on; that is counted.
    """
    training, random = Training(), np.random.default_rng(0)
    armed, counts = [False], {"interrupts": 0, "steps": 0, "before the update": 0, "after it": 0, "recording left off": 0}

    def ctrl_c(*_: Any) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, ctrl_c)
    begin = time.perf_counter()
    for _ in range(20):
        Training().step()
    typical = (time.perf_counter() - begin) / 20
    try:
        while counts["interrupts"] < n:
            step = training.steps
            try:
                armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, typical * random.random()))
                training.step()
                armed[0] = False
            except KeyboardInterrupt:
                counts["interrupts"] += 1
                counts["after it" if training.steps > step else "before the update"] += 1
                if not recording():
                    counts["recording left off"] += 1
                    assert counts["recording left off"] <= 1 + n // 1000
                    minigrad.no_grad().__exit__()
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    counts["steps"] = training.steps
    undisturbed = Training()
    for _ in range(counts["steps"]):
        undisturbed.step()
    training.optimizer.zero_grad()
    undisturbed.optimizer.zero_grad()
    assert training.numbers() == undisturbed.numbers(), "the weights are not those of the same training without Ctrl-C"
    return counts


class Interruption:
    """A context that raises KeyboardInterrupt before line (or bytecode instruction) number `moment` inside the library."""

    FILES = tuple(str(Path(package.__file__).parent) for package in (minigrad, nn))  # type: ignore[arg-type]

    def __init__(self, moment: float, opcodes: bool = False) -> None:
        self.moment, self.event, self.passed = moment, "opcode" if opcodes else "line", 0

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.FILES) or frame.f_code.co_name == "__del__":  # there Python ignores exceptions
            return None
        frame.f_trace_opcodes = self.event == "opcode"
        if event == self.event:
            if self.passed == self.moment:
                raise KeyboardInterrupt
            self.passed += 1
        return self.trace

    def __enter__(self) -> "Interruption":
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)


ACTIONS: dict[str, Callable[[Training, Training], Any]] = {
    "forward and backward": lambda t, _: t.loss().backward(),
    "backward": lambda t, _: (t.losses.pop() if t.losses else t.loss()).backward(),
    "step": lambda t, _: t.optimizer.step(),
    "zero_grad": lambda t, _: t.optimizer.zero_grad(),
    "zero_grad to 0": lambda t, _: t.model.zero_grad(set_to_none=False),
    "clip_grad_norm_": lambda t, _: nn.utils.clip_grad_norm_(t.model.parameters(), 1e-3),
    "load_state_dict of a model": lambda t, other: t.model.load_state_dict(other.model.state_dict()),
    "load_state_dict of an optimizer": lambda t, other: t.optimizer.load_state_dict(other.optimizer.state_dict()),
    "double": lambda t, _: t.model.double(),
    "compiled: as it is, recorded, played": lambda t, _: compiled(t),
}


def compiled(training: Training) -> None:
    ids = minigrad.tensor(np.random.default_rng(5).integers(0, 11, (3, 7)))
    loss = minigrad.compile(lambda ids: F.cross_entropy(training.model(ids).reshape(-1, 11), ids.reshape(-1)))
    for _ in range(3):
        y = loss(ids)
    y.backward()


def compiled_steps(last: int = sys.maxsize, every: int = 1) -> int:
    """Interrupt four compiled steps of training (as it is, recorded, twice played) before each of their lines: all must be as it
    is between two lines of the plain step, and then the training goes on as the plain one does from there."""

    ids = minigrad.tensor(np.random.default_rng(5).integers(0, 11, (3, 7)))

    def loss_of(training: Training) -> Tensor:
        return F.cross_entropy(training.model(ids).reshape(-1, 11), ids.reshape(-1))

    def fresh() -> tuple[Training, Callable[[], Tensor]]:
        training = Training(0, Smaller)

        def step() -> Tensor:
            training.optimizer.zero_grad()
            loss = loss_of(training)
            loss.backward()
            nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)
            training.optimizer.step()
            return loss.detach()

        return training, minigrad.compile(step)

    training, states = fresh()[0], list[Any]()
    for _ in range(5):
        for line in (
            training.optimizer.zero_grad,
            lambda: loss_of(training).backward(),
            lambda: nn.utils.clip_grad_norm_(training.model.parameters(), 0.1),
            training.optimizer.step,
        ):
            states.append(training.numbers())
            line()
    for _ in range(2):  # the second time, what is remembered of code is there
        training, step = fresh()
        with Interruption(math.inf) as whole:
            for _ in range(4):
                step()
    moments = range(max(0, whole.passed - last), whole.passed, every)
    for moment in moments:
        training, step = fresh()
        try:
            with Interruption(moment):
                for _ in range(4):
                    step()
            raise AssertionError(f"moment {moment} never came")
        except KeyboardInterrupt:
            pass
        assert training.numbers() in states, f"interrupted at moment {moment}, it is no state of the plain training"
        assert recording()
        for _ in range(3):
            taken = training.steps
            step()
            assert training.steps == taken + 1
    return len(moments)


def everywhere(name: str, opcodes: bool = False, last: int = sys.maxsize) -> int:
    """Interrupt an action at each of its (last) moments in turn: all must be as before it or as after it, and then it can be done."""

    def ready(seed: int = 0) -> Training:
        training = Training(seed, Smaller)
        training.loss().backward()
        training.optimizer.step()
        training.loss().backward()
        training.losses.append(training.loss())
        return training

    action, other, training = ACTIONS[name], ready(1), ready()
    other.optimizer.param_groups[0]["lr"] = 0.5
    action(ready(), other)  # from now on what is remembered of code is there
    states = [training.numbers()]
    with Interruption(math.inf, opcodes) as whole:
        action(training, other)
    states.append(training.numbers())
    action(training, other)
    states.append(training.numbers())
    assert states[0] != states[1]
    moments = range(max(0, whole.passed - last), whole.passed)
    for moment in moments:
        training = ready()
        try:
            with Interruption(moment, opcodes):
                action(training, other)
            raise AssertionError(f"{name}: moment {moment} never came")
        except KeyboardInterrupt:
            pass
        found = training.numbers()
        assert found in states[:2], f"{name}, interrupted at moment {moment}, is half done"
        assert recording()
        action(training, other)
        assert training.numbers() == states[states.index(found) + 1]
    return len(moments)


# Files --------------------------------------------------------------------------------------------------------

SHAPES = {"a": (64, 64), "b": (7,), "c": (32, 1024)}


def checkpoint(number: int) -> dict[str, Any]:
    return {"number": number, "arrays": {name: minigrad.full(shape, number) for name, shape in SHAPES.items()}}


def number_in(path: Path) -> int:
    """The number of the checkpoint in this file, which must be whole."""
    found = minigrad.load(path)
    assert {name: t.shape for name, t in found["arrays"].items()} == SHAPES
    assert all((t.data == found["number"]).all() for t in found["arrays"].values())
    return int(found["number"])


def kill(n: int, directory: Path) -> dict[str, int]:
    """Let a process save one checkpoint after the other to one path, and kill it, n times; each time a whole one must be there."""
    path, random, last, reached = directory / "checkpoint.npz", np.random.default_rng(0), 0, 0
    minigrad.save(checkpoint(0), path)
    for _ in range(n):
        child = os.fork()
        if not child:
            try:
                for number in itertools.count(last + 1):
                    minigrad.save(checkpoint(number), path)
            finally:
                os._exit(1)
        time.sleep(0.03 * random.random())
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        found = number_in(path)
        assert found >= last, "an older checkpoint came back"
        reached, last = reached + (found > last), found
    left = [file for file in directory.iterdir() if file != path]
    assert all(file.suffix == ".saving" for file in left)
    long_ago = time.time() - 3600
    for file in left:
        os.utime(file, (long_ago, long_ago))
    minigrad.save(checkpoint(last + 1), path)
    assert list(directory.iterdir()) == [path], "what killed processes left must go in the end"
    return {"kills": n, "whole files": n, "in the middle of a save": len(left), "with new checkpoints": reached, "checkpoints": last}


def flips(n: int, directory: Path, stride: int = 1) -> dict[str, int]:
    """Change one byte of a small file, n times, and cut it off at each (or every stride-th) byte: an error or the right numbers."""
    path, random = directory / "small.npz", np.random.default_rng(0)
    saved = {"w": minigrad.tensor([[1.5, -2.0], [0.25, 3.0]]), "step": 3, "names": ["a", "b"], "more": {"ids": minigrad.tensor([7, 8])}}

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        return (str(x.dtype), x.tolist()) if isinstance(x, Tensor) else x

    def loads() -> bool:
        try:
            found = minigrad.load(path)
        except ValueError as error:
            return "is not a whole file of minigrad.save" not in str(error)
        assert plain(found) == plain(saved), "a damaged file was loaded as something else"
        return True

    minigrad.save(saved, path)
    whole = path.read_bytes()
    counts = {"bytes": len(whole), "cut off": 0, "refused": 0, "changed": 0, "noticed": 0, "harmless": 0}
    for length in range(0, len(whole), stride):
        path.write_bytes(whole[:length])
        counts["cut off"] += 1
        counts["refused"] += not loads()
    for _ in range(n):
        place, change = random.integers(len(whole)), random.integers(1, 256)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
        harmless = loads()
        counts["changed"] += 1
        counts["harmless" if harmless else "noticed"] += 1
    assert counts["refused"] == counts["cut off"], "a file that isn't whole was loaded"
    return counts


def edges() -> None:
    import test_edges as t

    for name, (*_, value, gradient) in t.TABLE.items():
        print(f"{name}: value {t.errors(name)[0]:.1f} ulp (bound {value}), gradient {t.errors(name)[1]:.1f} (bound {gradient})")
    print("attention:", {name: round(max(t.attention_errors(name)), 1) for name in t.ATTENTIONS}, "(bound 8)")
    print("heads:", round(max(*t.heads_errors(False), *t.heads_errors(True)), 1), "(bound 6)")
    print("optimizers:", {name: round(t.optimizer_error(name), 1) for name in t.OPTIMIZERS}, "(bound 8)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "depth", "interrupt", "everywhere", "kill", "flips", "edges"])
    parser.add_argument("--n", type=int)
    args = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        if args.what == "memory":
            n = args.n or 10_000
            grown, alive = memory(n)
            print(f"{n} training steps: resident memory grew by {grown / 2**20:.2f} MiB, living tensors by {alive}")
            assert grown < 4 * 2**20
            assert alive == 0
        elif args.what == "depth":
            for graph in (chain, fan, ladder):
                n = args.n or 1_000_000
                start = time.perf_counter()
                slope = depth(graph, n)
                print(f"{graph.__name__} of {n} nodes: slope {slope:.9f}, {time.perf_counter() - start:.1f} s")
                assert abs(slope - 1) < 1e-9
        elif args.what == "interrupt":
            print(interrupt(args.n or 10_000))
        elif args.what == "everywhere":
            for action in ACTIONS:
                opcodes = not action.startswith("compiled")  # there by lines: it has some 40,000 bytecodes
                print(f"{action}: interrupted at {everywhere(action, opcodes)} moments, each time as before or as after")
            print(f"compiled steps: interrupted at {compiled_steps()} moments, each time as between two lines of the plain step")
        elif args.what == "kill":
            print(kill(args.n or 200, Path(name)))
        elif args.what == "flips":
            print(flips(args.n or 1000, Path(name)))
        else:
            edges()
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
