"""Code as lessons write it for PyTorch, run on minigrad by changing its imports and nothing else; and on PyTorch, to compare.

The lines of each lesson are below as text. `lesson(...)` runs them on minigrad and, where it is installed, on PyTorch, with the weights
of the models that minigrad drew; what they compute must be equal.
"""

import re

import numpy as np
import pytest

IMPORTS = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
SWAPPED = {
    "import torch": "import minigrad as torch",
    "import torch.nn as nn": "import layers as nn",
    "import torch.nn.functional as F": "import layers.functional as F",
}


def swapped(source):
    return "\n".join(SWAPPED.get(line, line) for line in source.split("\n"))


def executed(source, **names):
    exec(compile(source, "lesson", "exec"), names)
    return names


def plain(value):
    """A result as plain NumPy arrays and lists, from either library."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


def same(a, b, tolerance=1e-5):
    assert type(a) is type(b)
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, tolerance)
    elif isinstance(a, np.ndarray):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
    else:
        assert a == b if not isinstance(a, float) else a == pytest.approx(b, abs=tolerance)


@pytest.fixture
def lesson(torch_or_none):
    """lesson(source, main): both libraries run the source, which makes `model`; then main(names) on each must give the same."""

    def both(source, main):
        ours = executed(swapped(IMPORTS + source))
        weights = {name: t.numpy() for name, t in ours["model"].state_dict().items()} if "model" in ours else {}
        result = plain(main(ours))
        if torch_or_none:
            theirs = executed(IMPORTS + source)
            if weights:
                theirs["model"].load_state_dict({name: theirs["torch"].tensor(array) for name, array in weights.items()})
            same(result, plain(main(theirs)))
        return ours, result

    return both


# An embedding, and which words are alike --------------------------------------------------------------------------

EMBEDDING = """
torch.manual_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"

words = ["苹果", "香蕉", "手机", "电脑", "吃"]
word_to_id = {word: i for i, word in enumerate(words)}

model = nn.Embedding(num_embeddings=len(words), embedding_dim=8).to(device)
ids = torch.tensor([word_to_id[w] for w in words], dtype=torch.long, device=device)

def similarity(a, b):
    return (a * b).sum(dim=-1) / (a.norm(dim=-1) * b.norm(dim=-1))

def table():
    with torch.no_grad():
        vectors = model(ids)
        return similarity(vectors.unsqueeze(1), vectors.unsqueeze(0))

def pull_together(first, second, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        a, b = model(torch.tensor([word_to_id[first], word_to_id[second]]).to(device))
        loss = 1 - similarity(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

def nearest(word):
    row = table()[word_to_id[word]]
    scores, order = torch.sort(row, descending=True)
    return [words[i] for i in order.tolist()], scores

def one_hot_is_a_lookup():
    hot = F.one_hot(ids, num_classes=len(words)).float()
    return torch.allclose(hot @ model.weight, model(ids))
"""


def test_embedding_and_cosine_similarity(lesson):
    def main(names):
        before = names["table"]()
        loss = names["pull_together"]("苹果", "香蕉", 40)
        return [before, names["table"](), loss, *names["nearest"]("苹果"), names["one_hot_is_a_lookup"]()]

    names, (before, after, loss, order, _, lookup) = lesson(EMBEDDING, main)
    assert names["device"] == "cpu"
    np.testing.assert_allclose(before, before.T, atol=1e-6)
    np.testing.assert_allclose(before.diagonal(), 1, atol=1e-6)
    assert loss < 0.1
    assert after[0, 1] > 0.9 > before[0, 1]
    assert order[:2] == ["苹果", "香蕉"]
    assert lookup is True


# A decoder-only model: RMSNorm and gates written out, a mask in a buffer --------------------------------------------

DECODER = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class SelfAttention(nn.Module):
    def __init__(self, dim, n_heads, max_len, dropout):
        super().__init__()
        assert dim % n_heads == 0
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(max_len, max_len), diagonal=1).bool(), persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (y.view(B, T, self.n_heads, self.head_dim).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.mask[:T, :T], float("-inf"))
        weights = self.dropout(F.softmax(scores, dim=-1))
        y = (weights @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.out_proj(y)


class Block(nn.Module):
    def __init__(self, dim, n_heads, max_len, dropout):
        super().__init__()
        self.attn_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)
        self.attn = SelfAttention(dim, n_heads, max_len, dropout)
        self.ffn = FeedForward(dim, 3 * dim)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TinyLM(nn.Module):
    def __init__(self, vocab_size, dim=24, n_heads=3, n_layers=2, max_len=16, dropout=0.1):
        super().__init__()
        self.max_len = max_len
        self.tok_emb = nn.Embedding(vocab_size, dim)
        self.pos_emb = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList([Block(dim, n_heads, max_len, dropout) for _ in range(n_layers)])
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)
        self.lm_head.weight = self.tok_emb.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        assert T <= self.max_len, f"{T} tokens, at most {self.max_len}"
        pos = torch.arange(T, device=idx.device)
        x = self.tok_emb(idx) + self.pos_emb(pos)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.norm(x))
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


torch.manual_seed(1337)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyLM(vocab_size=13).to(device)
n_params = sum(p.numel() for p in model.parameters() if p.requires_grad)


def train(data, steps, dropout):
    model.train(dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    losses = []
    for step in range(steps):
        start = step % (len(data) - 10)
        x = torch.stack([data[start:start + 8], data[start + 1:start + 9]]).to(device)
        y = torch.stack([data[start + 1:start + 9], data[start + 2:start + 10]]).to(device)
        logits, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


@torch.no_grad()
def generate(idx, max_new_tokens):
    model.eval()
    for _ in range(max_new_tokens):
        logits, _ = model(idx[:, -model.max_len:])
        next_id = torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)
        idx = torch.cat([idx, next_id], dim=1)
    return idx
"""


def test_a_decoder_trains_and_generates_the_same(lesson):
    def main(names):
        torch, model = names["torch"], names["model"]
        data = torch.tensor([i * i % 13 for i in range(40)])
        logits, nothing = model.eval()(data[:12].view(2, 6))
        losses = names["train"](data, 12, dropout=False)
        with torch.no_grad():
            after = model(data[:12].view(2, 6))[0]
        written = names["generate"](data[None, :3], 20)
        return [logits, nothing, losses, after, written, names["n_params"], model.training]

    names, (logits, _, losses, after, written, count, training) = lesson(DECODER, main)
    assert str(names["device"]) == "cpu"
    assert losses[-1] < losses[0] - 0.1
    assert np.abs(after - logits).max() > 0.1
    assert written.shape == (1, 23)
    assert count == 13 * 24 + 16 * 24 + 2 * (24 * 72 + 72 + 24 * 24 + 24 + 3 * 24 * 72 + 2 * 24) + 24
    assert training is False


def test_its_dropout_drops_in_training_only():
    names = executed(swapped(IMPORTS + DECODER))
    data = names["torch"].tensor([i * i % 13 for i in range(40)])
    assert np.isfinite(names["train"](data, 3, dropout=True)).all()
    model, ids = names["model"], data[None, :9]
    assert model(ids)[0].equal(model(ids)[0])
    model.train()
    assert not model(ids)[0].equal(model(ids)[0])


# Samplers ---------------------------------------------------------------------------------------------------------

SAMPLERS = """
def top_k_filter(logits, k):
    values, _ = torch.topk(logits, min(k, logits.size(-1)), dim=-1)
    return logits.masked_fill(logits < values[..., -1, None], float("-inf"))

def top_k_in_place(logits, k):
    logits = logits.clone()
    values, _ = torch.topk(logits, k)
    logits[logits < values[:, [-1]]] = -float("inf")
    return logits

def top_p_filter(logits, p):
    sorted_logits, sorted_idx = torch.sort(logits, descending=True, dim=-1)
    cumulative = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
    remove = cumulative > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(remove.scatter(-1, sorted_idx, remove), float("-inf"))

def top_p_through_probabilities(logits, p):
    probs = torch.softmax(logits, dim=-1)
    probs_sort, probs_idx = torch.sort(probs, dim=-1, descending=True)
    mask = torch.cumsum(probs_sort, dim=-1) - probs_sort > p
    probs_sort[mask] = 0.0
    probs_sort = probs_sort / probs_sort.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probs).scatter(-1, probs_idx, probs_sort)

def penalised(logits, generated, penalty):
    score = torch.gather(logits, 1, generated)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, generated, score)

@torch.no_grad()
def sample(logits, temperature=1.0, top_k=None, top_p=None):
    if temperature == 0:
        return torch.argmax(logits, dim=-1, keepdim=True)
    logits = logits / temperature
    if top_k is not None:
        logits = top_k_filter(logits, top_k)
    if top_p is not None:
        logits = top_p_filter(logits, top_p)
    probs = F.softmax(logits, dim=-1)
    return torch.multinomial(probs, num_samples=1)
"""


def test_samplers_filter_the_same_and_draw_from_the_same_distribution(lesson):
    numbers = np.random.default_rng(4).normal(0, 2, (3, 9)).astype("float32")

    def main(names):
        torch = names["torch"]
        logits, seen = torch.tensor(numbers), torch.tensor([[1, 2], [0, 5], [8, 3]])
        filtered = [
            names["top_k_filter"](logits, 4),
            names["top_k_in_place"](logits, 4),
            names["top_p_filter"](logits, 0.8),
            names["top_p_through_probabilities"](logits, 0.8),
            names["penalised"](logits, seen, 1.3),
            names["sample"](logits, temperature=0),
        ]
        torch.manual_seed(1)
        drawn = names["sample"](logits[:1].repeat(20_000, 1), temperature=0.7, top_k=5, top_p=0.9)
        counts = np.bincount(drawn[:, 0].numpy(), minlength=9) / len(drawn)
        kept = names["F"].softmax(names["top_p_filter"](names["top_k_filter"](logits[:1] / 0.7, 5), 0.9), dim=-1)[0].numpy()
        assert not counts[kept == 0].any()
        np.testing.assert_allclose(counts, kept, atol=0.015)  # 4 standard deviations
        return [*filtered, kept]

    _, (a, b, c, d, *_) = lesson(SAMPLERS, main)
    assert (np.isfinite(a).sum(-1) == 4).all()
    assert np.array_equal(a, b)
    assert np.array_equal(np.isfinite(c), d > 0)


# An engine with a cache of keys and values ------------------------------------------------------------------------

ENGINE = """
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wv, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.heads, d // self.heads).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        s = k.size(2)
        mask = torch.ones(t, s, dtype=torch.bool, device=x.device).tril(diagonal=s - t)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(out.transpose(1, 2).reshape(b, t, d)), (k, v)


class Model(nn.Module):
    def __init__(self, vocab, dim=16, heads=2, layers=2, max_len=32):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.attns = nn.ModuleList(Attention(dim, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers + 1))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, past=None):
        start = 0 if past is None else past[0][0].shape[2]
        x = self.emb(ids) + self.pos(torch.arange(start, start + ids.shape[1], device=ids.device))
        present = []
        for i, attn in enumerate(self.attns):
            y, kv = attn(self.norms[i](x), None if past is None else past[i])
            x = x + y
            present.append(kv)
        return self.head(self.norms[-1](x)), present


class Engine:
    def __init__(self, model, eos=None):
        self.model, self.eos = model.eval(), eos
        self.fed = []

    @torch.no_grad()
    def stream(self, prompt, max_new_tokens):
        past, ids = None, torch.tensor([prompt], dtype=torch.long)
        for _ in range(max_new_tokens):
            self.fed.append(ids.shape[1])
            logits, past = self.model(ids, past)
            ids = logits[:, -1].argmax(dim=-1, keepdim=True)
            token = ids.item()
            if token == self.eos:
                return
            yield token


@torch.no_grad()
def naive(model, prompt, max_new_tokens):
    ids = torch.tensor(prompt).unsqueeze(0).to("cpu")
    for _ in range(max_new_tokens):
        logits, _ = model(ids)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids[0, len(prompt):].tolist()


torch.manual_seed(0)
model = Model(vocab=11).to("cpu")
"""


def test_an_engine_with_a_cache_writes_what_naive_generation_writes(lesson):
    def main(names):
        engine = names["Engine"](names["model"])
        tokens = list(engine.stream([3, 1, 4, 1, 5], 20))
        stopping = names["Engine"](names["model"], eos=tokens[7])
        logits, past = names["model"](names["torch"].tensor([[3, 1, 4]]).cpu())
        more, _ = names["model"](names["torch"].tensor([[1, 5]]), past)
        return [
            tokens,
            names["naive"](names["model"], [3, 1, 4, 1, 5], 20),
            engine.fed,
            list(stopping.stream([3, 1, 4, 1, 5], 20)),
            logits,
            more,
        ]

    names, (cached, naive, fed, stopped, _, more) = lesson(ENGINE, main)
    assert cached == naive
    assert fed == [5] + [1] * 19
    assert stopped == cached[: cached.index(cached[7])]
    whole = names["model"](names["torch"].tensor([[3, 1, 4, 1, 5]]))[0]
    np.testing.assert_allclose(more, whole[:, 3:].detach().numpy(), atol=1e-5)


# What nearly every lesson has about devices -----------------------------------------------------------------------

DEVICES = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.tensor([1.0, 2.0], device=device)
y = torch.zeros(2, device="cpu") + x.to("cpu").to(device) + torch.randn(2, device=device) * 0
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout(0.5)).to(device).eval()

@torch.no_grad()
def predict(inputs):
    return model(inputs.to(device))

result = predict(y).cpu().numpy()
"""


def test_lines_about_devices(lesson):
    names, (available, device, kind, result) = lesson(
        DEVICES,
        lambda names: [names["torch"].cuda.is_available(), str(names["x"].device), names["device"].type, names["predict"](names["y"])],
    )
    assert (available, device, kind) == (False, "cpu", "cpu")
    assert result.shape == (3,)
    for wrong in ("cuda", "mps", "cuda:0"):
        with pytest.raises(RuntimeError, match="minigrad computes on the CPU"):
            names["model"].to(wrong)
        with pytest.raises(RuntimeError, match="minigrad computes on the CPU"):
            names["torch"].zeros(2, device=wrong)


def test_only_the_imports_are_changed():
    for source in (EMBEDDING, DECODER, SAMPLERS, ENGINE, DEVICES):
        changed = [(a, b) for a, b in zip((IMPORTS + source).split("\n"), swapped(IMPORTS + source).split("\n"), strict=True) if a != b]
        assert changed == list(SWAPPED.items())
        assert not re.search("minigrad|layers[.]", source)
