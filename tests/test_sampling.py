"""Each sampler by the distribution it must have, each filter by what it must keep, and the loop that generates."""

import math

import numpy as np
import pytest

import layers as nn
import minigrad
from layers.decoder import Cache
from layers.sampling import generate, greedy, gumbel_max, sample, temperature, top_k, top_p

P = np.array([[0.5, 0.25, 0.125, 0.1, 0.025], [0.05, 0.05, 0.3, 0.0, 0.6]])
DRAWS = 20_000
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47}  # exceeded once in 1000 seeds, by degrees of freedom


def logits_of(p, shift=3.0):
    with np.errstate(divide="ignore"):
        return minigrad.tensor(np.log(p) + shift)  # softmax forgets the shift


def follows(ids, p):
    """Whether the ids could be drawn with probabilities p: Pearson's chi-square test; what has probability 0 never occurs."""
    counts, kept = np.bincount(ids.numpy(), minlength=len(p)), p > 0
    assert not counts[~kept].any()
    expected = p[kept] / p[kept].sum() * len(ids)
    return ((counts[kept] - expected) ** 2 / expected).sum() < CHI_SQUARE[kept.sum() - 1] if kept.sum() > 1 else True


def drawn(choose, logits):
    minigrad.manual_seed(7)
    return choose(logits.expand(DRAWS, *logits.shape))


# Choosing ---------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_likeliest():
    assert greedy(logits_of(P)).tolist() == [0, 4]
    assert greedy(logits_of(P[0])).item() == 0


@pytest.mark.parametrize("choose", [sample, gumbel_max])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_have_the_probabilities_of_the_softmax_row_by_row(choose, dtype):
    ids = drawn(choose, logits_of(P).to(dtype))
    assert (ids.shape, ids.dtype) == ((DRAWS, 2), minigrad.int64)
    for row, p in enumerate(P):
        assert follows(ids[:, row], p)
    both = np.bincount((ids[:, 0] * 5 + ids[:, 1]).numpy(), minlength=25).reshape(5, 5) / DRAWS
    assert np.abs(both - np.outer(*P)).max() < 0.015  # the rows are drawn independently
    assert choose(logits_of(P[1])).shape == ()
    assert choose(logits_of(P).reshape(1, 2, 1, 5)).shape == (1, 2, 1)


def test_the_test_of_distributions_can_fail():
    ids = drawn(sample, logits_of(P[0]))
    assert not follows(ids, np.array([0.48, 0.27, 0.125, 0.1, 0.025]))
    assert not follows(drawn(lambda x: (x + minigrad.randn_like(x)).argmax(-1), logits_of(P[0])), P[0])  # Gauss for Gumbel


def test_the_same_seed_draws_the_same():
    for choose in (sample, gumbel_max):
        a, b = drawn(choose, logits_of(P)), drawn(choose, logits_of(P))
        assert a.equal(b)
        assert not a.equal(choose(logits_of(P).expand(DRAWS, 2, 5)))


def test_far_logits_neither_overflow_nor_fail():
    far = minigrad.tensor([[1e6, 0.0, -1e6], [-1e6, -math.inf, -1e6]])
    for choose in (sample, gumbel_max):
        ids = choose(far.expand(50, 2, 3))
        assert set(ids[:, 0].tolist()) == {0}
        assert set(ids[:, 1].tolist()) == {0, 2}


def test_a_zero_among_the_random_numbers_does_no_harm(monkeypatch):
    monkeypatch.setattr(minigrad, "rand", lambda shape, dtype: minigrad.tensor([0.0, 0.5], dtype=dtype))
    assert gumbel_max(minigrad.tensor([100.0, 0.0])).item() == 0


# Filtering --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.5, 1.0, 3.0])
def test_temperature_takes_probabilities_to_the_power_of_one_over_t(t):
    cooled = temperature(logits_of(P), t)
    expected = P ** (1 / t) / (P ** (1 / t)).sum(-1, keepdims=True)
    np.testing.assert_allclose(cooled.softmax(-1).numpy(), expected, atol=1e-12)
    assert follows(drawn(sample, cooled)[:, 0], expected[0])


def kept(logits):
    return [np.flatnonzero(row).tolist() for row in (logits > -math.inf).numpy()]


def test_top_k_keeps_the_k_likeliest_and_their_proportions():
    logits = logits_of(P)
    assert [kept(top_k(logits, k)) for k in (1, 2, 3)] == [[[0], [4]], [[0, 1], [2, 4]], [[0, 1, 2], [0, 2, 4]]]
    for k in (5, 99):
        assert top_k(logits, k).equal(logits)
    assert top_k(logits, 2)[0, :2].equal(logits[0, :2])
    assert follows(drawn(sample, top_k(logits, 3))[:, 0], np.array([4, 2, 1, 0, 0]) / 7)
    assert kept(top_k(minigrad.ones(1, 4), 2)) == [[0, 1]]  # ties: never more than k


def test_top_p_on_paper():
    logits = logits_of(P)
    found = {p: kept(top_p(logits, p)) for p in (1e-9, 0.45, 0.55, 0.7, 0.8, 0.92, 0.999, 1.0)}
    first = [[0], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    second = [[4], [4], [4], [2, 4], [2, 4], [0, 2, 4], [0, 1, 2, 4], [0, 1, 2, 4]]
    assert list(found.values()) == [list(rows) for rows in zip(first, second, strict=True)]
    assert follows(drawn(sample, top_p(logits, 0.8))[:, 0], np.array([4, 2, 1, 0, 0]) / 7)


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    random = np.random.default_rng(0)
    logits = minigrad.tensor(random.normal(0, 2, (200, 23)).astype("float32"))
    probabilities = logits.double().softmax(-1).numpy()
    for p in (0.1, 0.5, 0.9, 0.99):
        out = top_p(logits, p)
        assert out.dtype == "float32"
        for row, chosen in zip(probabilities, kept(out), strict=True):
            assert row[chosen].sum() >= p
            assert row[chosen].sum() - row[chosen].min() < p
            assert row[chosen].min() >= np.delete(row, chosen).max(initial=0)


def test_top_p_of_1_keeps_even_what_rounding_would_lose():
    logits = minigrad.tensor([[0.0, -20.0, -40.0, -80.0], [0.0, -80.0, -90.0, -80.0]])
    assert top_p(logits, 1.0).equal(logits)
    assert kept(top_p(logits, 1 - 1e-9)) == [[0, 1], [0]]


def test_filters_chain():
    logits = logits_of(P)
    assert kept(top_p(top_k(temperature(logits, 0.5), 3), 0.99)) == [[0, 1, 2], [2, 4]]
    assert kept(top_k(top_p(logits, 0.55), 3))[1] == [4]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: temperature(x, 0.0), ValueError, ["above 0", "got 0.0", "greedy"]),
        (lambda x: temperature(x, -1), ValueError, ["above 0", "-1"]),
        (lambda x: temperature(x, math.nan), ValueError, ["nan"]),
        (lambda x: temperature(x, "hot"), TypeError, ["temperature", "'hot'"]),
        (lambda x: top_k(x, 0), ValueError, ["at least 1", "got 0"]),
        (lambda x: top_k(x, 0.5), TypeError, ["k must be an int", "0.5"]),
        (lambda x: top_p(x, 0.0), ValueError, ["(0, 1]", "0.0"]),
        (lambda x: top_p(x, 1.5), ValueError, ["(0, 1]", "1.5"]),
        (lambda x: sample(x * math.nan), ValueError, ["finite", "nan"]),
    ],
)
def test_wrong_numbers_are_refused(call, error, words):
    with pytest.raises(error) as raised:
        call(logits_of(P))
    assert [word for word in words if word not in str(raised.value)] == []


# Generating -------------------------------------------------------------------------------------------------------


def model(positions="learned", max_length=8):
    minigrad.manual_seed(1)
    return nn.TinyTransformer(13, 12, 3, 2, max_length, positions=positions).double()


def generated(net, prompt, count, *args, **options):
    minigrad.manual_seed(2)
    return minigrad.stack(list(generate(net, minigrad.tensor(prompt), count, *args, **options)), dim=-1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("prompt", [[3], [1, 2, 3, 4, 5, 6, 7, 8], [[1, 2, 3], [4, 5, 6]], list(range(12))])
def test_tokens_with_and_without_the_cache_are_the_same_and_are_those_of_a_plain_loop(positions, prompt):
    net = model(positions)
    ids = minigrad.tensor(prompt)
    minigrad.manual_seed(2)
    for _ in range(10):
        logits = net(ids[..., -8:])[..., -1, :]
        ids = minigrad.cat([ids, sample(logits).unsqueeze(-1)], dim=-1)
    new = ids[..., -10:]
    assert generated(net, prompt, 10).equal(new)
    assert generated(net, prompt, 10, use_cache=False).equal(new)


def test_a_step_costs_one_token_until_the_context_is_full(monkeypatch):
    net, seen = model(), []
    forward = net.forward
    monkeypatch.setattr(net, "forward", lambda ids, cache=None: seen.append((ids.tolist(), cache is not None)) or forward(ids, cache))
    new = generated(net, [1, 2, 3], 8).tolist()
    assert seen[:6] == [([1, 2, 3], True)] + [([token], True) for token in new[:5]]
    assert seen[6:] == [([2, 3, *new[:6]], False), ([3, *new[:7]], False)]
    seen.clear()
    generated(net, list(range(12)), 2)
    assert [(len(ids), cached) for ids, cached in seen] == [(8, False)] * 2
    seen.clear()
    generated(net, [1, 2, 3], 3, use_cache=False)
    assert [(len(ids), cached) for ids, cached in seen] == [(3, False), (4, False), (5, False)]


def test_tokens_come_one_by_one_outside_the_graph():
    net, prompt = model(), minigrad.tensor([[1, 2], [3, 4]])
    steps = generate(net, prompt, 3, greedy)
    first = next(steps)
    assert (first.shape, first.dtype) == ((2,), minigrad.int64)
    assert first.equal(net(prompt)[:, -1].argmax(-1))
    assert net(prompt).requires_grad  # between two tokens gradients are recorded as usual
    seen = []
    list(generate(net, prompt, 1, lambda logits: seen.append(logits) or greedy(logits)))
    assert not seen[0].requires_grad
    assert len(list(steps)) == 2
    assert prompt.shape == (2, 2)
    assert list(generate(net, prompt, 0)) == []


def test_generating_does_not_touch_a_cache_of_the_users():
    net, cache, prompt = model(), Cache(), minigrad.tensor([1, 2])
    net(prompt, cache)
    generated(net, [5, 6, 7], 3)
    assert cache.length(net.layers[0].attention) == 2


@pytest.mark.parametrize(
    ("prompt", "count", "error", "words"),
    [
        (minigrad.tensor([1])[:0], 1, ValueError, ["at least one token", "(0,)"]),
        (minigrad.tensor(3), 1, ValueError, ["(t) or (b, t)", "()"]),
        ([1, 2], 1, TypeError, ["generate takes a Tensor", "[1, 2]"]),
        (minigrad.tensor([1]), 1.5, TypeError, ["count", "1.5"]),
    ],
)
def test_a_prompt_must_be_ids(prompt, count, error, words):
    with pytest.raises(error) as raised:
        next(generate(model(), prompt, count))
    assert [word for word in words if word not in str(raised.value)] == []
