"""The way to PyTorch and back: the weights of char_model.py in a model made of torch.nn, with the same logits and the same training.

    python examples/char_model.py --save model.npz
    python examples/to_pytorch.py model.npz --steps 50 --save onwards.npz      trains on in PyTorch
    python examples/char_model.py --resume onwards.npz --steps 700             and this goes on from there

Without a file it trains a small model first. --safetensors FILE also writes the weights in the format that most PyTorch models are
shared in, and reads them back. Needs PyTorch (pip install torch), and for that option safetensors (pip install safetensors).
"""

import argparse
import sys
from typing import Any

import char_model
import command  # what the examples share as programs

import minigrad

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("this example needs PyTorch, which is not installed here: pip install torch")


# The model: names, shapes and order of the weights are those of layers/decoder.py --------------------------------


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions, (b, h, t, d) -> (b, h, t, d)."""
    t, d = x.shape[-2:]
    angle = torch.arange(t).double().unsqueeze(1) / 10000 ** (torch.arange(d // 2).double() * 2 / d)  # (t, d/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, rotary: bool) -> None:
        super().__init__()
        self.num_heads, self.rotary = num_heads, rotary
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (W(x).view(b, t, self.num_heads, -1).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))  # (b, h, t, d_head)
        if self.rotary:
            q, k = turned(q), turned(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (b, h, t, d_head)
        return self.W_o(y.transpose(1, 2).reshape(b, t, d))


class MLP(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.W_gate, self.W_up = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


class Layer(nn.Module):
    def __init__(self, d_model: int, num_heads: int, rotary: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(d_model), Attention(d_model, num_heads, rotary)
        self.norm2, self.mlp = nn.RMSNorm(d_model), MLP(d_model, 2 * d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """ids (b, t) -> logits (b, t, v). Its sizes and kind of positions stand in the options of char_model.py."""

    def __init__(self, vocab_size: int, options: dict[str, Any]) -> None:
        super().__init__()
        if options["no_attention"]:
            sys.exit("a model that was trained with --no-attention is not carried over")
        d, length, kind = options["width"], options["length"], options["positions"]
        self.embedding = nn.Embedding(vocab_size, d)
        self.positions = nn.Parameter(torch.zeros(length, d)) if kind == "learned" else None
        waves = torch.zeros(length, d)
        if kind == "sinusoidal":
            angle = torch.arange(length).double().unsqueeze(1) / 10000 ** (torch.arange(0, d, 2).double() / d)  # (t, d/2)
            waves[:, 0::2], waves[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("waves", waves, persistent=False)
        self.layers = nn.ModuleList([Layer(d, options["heads"], kind == "rotary") for _ in range(options["layers"])])
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, vocab_size, bias=not options["tied"])
        if options["tied"]:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        table = self.waves if self.positions is None else self.positions
        x = self.embedding(ids) + table[: ids.shape[1]]  # (b, t, d)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def update(model: nn.Module, optimizer: torch.optim.Optimizer, windows: torch.Tensor, step: int, options: dict[str, Any]) -> float:
    """The step of char_model.py, in PyTorch."""
    loss = char_model.objective(model, windows, F.cross_entropy)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = char_model.learning_rate(step, options)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


# What is carried over, there and back ----------------------------------------------------------------------------


def weights_there(state: dict[str, minigrad.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(t.numpy()) for name, t in state.items()}


def weights_back(state: dict[str, torch.Tensor]) -> dict[str, minigrad.Tensor]:
    return {name: minigrad.from_numpy(t.numpy()) for name, t in state.items()}


def optimizer_there(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Adam's averages. minigrad keeps the root of the average of g**2, PyTorch the average itself."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for number, own in state["state"].items():
        mean, root = (torch.from_numpy(own[name].numpy()) for name in ("mean", "root"))
        optimizer.state[params[int(number)]] = {"step": torch.tensor(float(own["step"])), "exp_avg": mean, "exp_avg_sq": root**2}


def optimizer_back(optimizer: torch.optim.Optimizer, like: dict[str, Any]) -> dict[str, Any]:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    state = {}
    for number, p in enumerate(params):
        own = optimizer.state[p]
        arrays = {"mean": own["exp_avg"], "root": own["exp_avg_sq"].sqrt()}
        state[str(number)] = {"step": int(own["step"]), **{name: minigrad.from_numpy(t.numpy()) for name, t in arrays.items()}}
    return {"state": state, "param_groups": like["param_groups"]}


def write_safetensors(state: dict[str, minigrad.Tensor], path: str) -> None:
    from safetensors.numpy import save_file

    save_file({name: t.numpy() for name, t in state.items()}, path)


def read_safetensors(path: str) -> dict[str, minigrad.Tensor]:
    from safetensors.numpy import load_file

    return {name: minigrad.from_numpy(array) for name, array in load_file(path).items()}


# The job ---------------------------------------------------------------------------------------------------------


LIMITS = {"logits": 1e-5, "losses": 1e-4, "back": 1e-5, "safetensors": 0.0}  # what may differ by rounding, and how far


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="what char_model.py --save wrote (default: train a small model first)")
    parser.add_argument("--steps", type=command.natural, default=30, help="how many steps both train on, side by side (default: 30)")
    parser.add_argument("--save", type=command.output, metavar="FILE", help="write what PyTorch has learned, for char_model.py --resume")
    parser.add_argument("--safetensors", type=command.output, metavar="FILE", help="write the weights in this format, and read them back")
    args = parser.parse_args(argv)
    if args.safetensors:
        try:
            import safetensors  # noqa: F401
        except ImportError:
            parser.error("--safetensors needs the package safetensors, which is not installed here: pip install safetensors")
    return args


def difference(a: minigrad.Tensor, b: torch.Tensor) -> float:
    return float(abs(a.detach().numpy() - b.detach().numpy()).max())


def main(args: argparse.Namespace) -> dict[str, Any]:
    """Carry over, compare, train on both sides, come back; print and return the largest differences."""
    run = char_model.arguments(["--resume", args.file] if args.file else ["--steps", "150"])  # checks the file, and makes the data anew
    if not args.file:
        char_model.train(run)
        print()
    state, options, text = run.saved, run.saved["options"], run.data

    ours = char_model.build(options, len(text.characters))
    ours.load_state_dict(state["model"])
    our_optimizer = char_model.optimizer_of(ours, options)
    our_optimizer.load_state_dict(state["optimizer"])

    theirs = Decoder(len(text.characters), options)
    theirs.load_state_dict(weights_there(state["model"]))
    their_optimizer = char_model.optimizer_of(theirs, options, torch.optim.AdamW)
    optimizer_there(state["optimizer"], their_optimizer)

    windows = text.held_out[:64, :-1]
    found = {"logits": difference(ours(windows), theirs(torch.from_numpy(windows.numpy())))}
    print(f"the same weights: logits differ by {found['logits']:.1e} at most, over {windows.numel():,} characters")

    minigrad.set_rng_state(state["random"])
    found["losses"], last = 0.0, state["step"] + args.steps
    for step in range(state["step"], last):
        batch = text.batch(options["batch"])
        our_loss = char_model.update(ours, our_optimizer, batch, step, options)
        their_loss = update(theirs, their_optimizer, torch.from_numpy(batch.numpy()), step, options)
        found["losses"] = max(found["losses"], abs(our_loss - their_loss))
        if (last - 1 - step) % max(1, args.steps // 6) == 0:
            print(f"step {step + 1:4d}   loss in minigrad {our_loss:.6f}   in PyTorch {their_loss:.6f}")
    random = minigrad.get_rng_state()  # before the next model draws its first weights
    print(f"the same training: losses differ by {found['losses']:.1e} at most, over {args.steps} steps")

    back = char_model.build(options, len(text.characters))
    back.load_state_dict(weights_back(theirs.state_dict()))
    found["back"] = difference(back(windows), theirs(torch.from_numpy(windows.numpy())))
    print(f"and back: logits differ by {found['back']:.1e} at most; held-out loss now {char_model.held_out_loss(back, text):.3f}")
    if args.safetensors:
        write_safetensors(back.state_dict(), args.safetensors)
        again = read_safetensors(args.safetensors)
        found["safetensors"] = max(float(abs(again[name].numpy() - t.numpy()).max()) for name, t in back.state_dict().items())
        print(f"weights written to {args.safetensors}, and read back the same")
    if args.save:
        onwards = {"model": back.state_dict(), "optimizer": optimizer_back(their_optimizer, our_optimizer.state_dict())}
        with command.writing(args.save, f"what PyTorch has learned up to step {last}"):
            minigrad.save({**state, **onwards, "random": random, "step": last}, args.save)
    wrong = {name: value for name, value in found.items() if not value <= LIMITS[name]}
    if wrong:
        sys.exit(f"these should be equal to rounding, and differ: {wrong}")
    return found


if __name__ == "__main__":
    main(arguments(None))
