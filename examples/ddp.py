"""The model of char_model.py in two processes at once, with PyTorch's DistributedDataParallel: the door to many machines.

    python examples/ddp.py                     random weights
    python examples/ddp.py model.npz           those that char_model.py --save wrote

Each process takes half of each batch. DistributedDataParallel averages their gradients before the step, so both take the same one,
and it is the step of one process that has the whole batch: this is checked. Needs PyTorch (pip install torch).
"""

import argparse
import multiprocessing
import sys
import tempfile
from typing import Any

import char_model
import command  # what the examples share as programs
import to_pytorch  # ends here, and says why, where PyTorch is not installed
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def build(weights: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The model and its optimizer."""
    model = to_pytorch.Decoder(len(weights["embedding.weight"]), options)
    model.load_state_dict(to_pytorch.weights_there(weights))
    return model, char_model.optimizer_of(model, options, torch.optim.AdamW)


def train(model: Any, optimizer: Any, batches: list[torch.Tensor], options: dict[str, Any]) -> list[float]:
    """The same steps, whoever wraps the model."""
    torch.set_num_threads(1)
    return [to_pytorch.update(model, optimizer, batch, step, options) for step, batch in enumerate(batches)]


def process(rank: int, folder: str, weights: Any, batches: list[torch.Tensor], options: dict[str, Any]) -> None:
    """What each of the processes does; the ranks count them."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    model, optimizer = build(weights, options)
    shared = DistributedDataParallel(model)
    losses = train(shared, optimizer, [batch.chunk(PROCESSES)[rank] for batch in batches], options)
    torch.save({"losses": losses, "model": model.state_dict()}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def main(argv: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="what char_model.py --save wrote (default: start with random weights)")
    parser.add_argument("--steps", type=command.natural, default=20, help="training steps (default: 20)")
    args = parser.parse_args(argv)
    run = char_model.arguments(["--resume", args.file] if args.file else [])
    options = {name: getattr(run, name) for name in char_model.DEFAULTS}
    weights = run.saved["model"] if run.saved else char_model.build(options, len(run.data.characters)).state_dict()
    batches = [torch.from_numpy(run.data.batch(2 * max(1, options["batch"] // 2)).numpy()) for _ in range(args.steps)]

    model, optimizer = build(weights, options)  # before the processes start: forked ones then find loaded what PyTorch loads for it
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        workers = [context.Process(target=process, args=(rank, folder, weights, batches, options)) for rank in range(PROCESSES)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            sys.exit(f"a process failed: exit codes {[worker.exitcode for worker in workers]}")
        halves = [torch.load(f"{folder}/{rank}.pt") for rank in range(PROCESSES)]
    losses = train(model, optimizer, batches, options)  # one process, the whole batch

    for step in range(0, args.steps, max(1, args.steps // 5)):
        one, other = (half["losses"][step] for half in halves)
        print(
            f"step {step + 1:3d}   losses {one:.6f} and {other:.6f}, their mean {(one + other) / 2:.6f}; in one process {losses[step]:.6f}"
        )
    found = {
        "between the processes": max(float((t - halves[1]["model"][name]).abs().max()) for name, t in halves[0]["model"].items()),
        "from one process": max(float((t - halves[0]["model"][name]).abs().max()) for name, t in model.state_dict().items()),
        "of the losses": max((abs(sum(h["losses"][i] for h in halves) / 2 - loss) for i, loss in enumerate(losses)), default=0.0),
    }
    for name, value in found.items():
        print(f"largest difference {name}: {value:.1e}")
    if not (found["between the processes"] == 0 and found["from one process"] < 1e-5 and found["of the losses"] < 1e-5):
        sys.exit("two processes should do exactly what one does")
    print(f"{PROCESSES} processes with half of each batch did what one does with the whole")
    return found


if __name__ == "__main__":
    main()
