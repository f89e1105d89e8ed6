"""Lesson 2. Which word does 苹果 look at, 吃 or 手机?

苹果 is a fruit in 我吃苹果 (I eat an apple) and a company in 我说苹果手机 (I speak of an Apple phone). One word decides.
Each sentence here has two such nouns, 苹果 (apple, Apple) and 小米 (millet, Xiaomi), each with its own cue, before or
after it. The model reads its answer at 苹果. It is tested on sentences whose two nouns have opposite senses: there both
cues occur, and only their places tell which belongs to 苹果.

Controls: no attention (苹果 sees itself alone), a bag of words (every word weighs the same), and the causal mask.
"""

import sys

from common import Claims, Model, command_line, pad, table, train
from picture import Picture, width

import numpy as np

import layers.functional as F
import minigrad

SENSES = ["fruit", "company"]
VERBS = [["吃", "洗", "煮", "种", "尝"], ["投资", "起诉", "收购", "看好", "采访"]]  # cues before the noun: eat ...; invest in ...
PREDICATES = [["熟了", "很甜", "发霉", "烂了", "好吃"], ["手机", "电脑", "股票", "耳机", "官网"]]  # cues after it: is ripe ...; phone ...
SUBJECTS, ADVERBS = ["我", "他", "她", "妈妈", "同学", "老师"], ["今天", "昨天", "其实", "又"]
NEUTRAL, PARTICLES = list("说聊看讲"), list("了呢吧啊")  # verbs and endings that fit both senses
WORDS = ["。", "，", "苹果", "小米", *SUBJECTS, *ADVERBS, *NEUTRAL, *PARTICLES, *VERBS[0], *VERBS[1], *PREDICATES[0], *PREDICATES[1]]
LENGTH = 11
EXAMPLES = ["我 吃 苹果 呢 ， 他 说 小米 手机 。 。", "我 说 苹果 手机 ， 他 吃 小米 呢 。 。"]  # the same words


def clause(random, noun, sense):
    """A clause, and the word in it that gives the sense away."""
    start = [random.choice(SUBJECTS)]
    if random.rand() < 0.5:
        start.insert(random.randint(2), random.choice(ADVERBS))
    if random.rand() < 0.5:
        verb = random.choice(VERBS[sense])
        return [*start, verb, noun, random.choice(PARTICLES)], verb
    cue = random.choice(PREDICATES[sense])
    return [*start, random.choice(NEUTRAL), noun, cue], cue


def sentences(random, count, conflict):
    """ids (count, 11), the place of 苹果, the place of its cue, its sense."""
    ids, rest = np.zeros((count, LENGTH), int), np.zeros((count, 3), int)  # id 0 is 。, which fills up
    for i in range(count):
        sense = random.randint(2)
        apple, cue = clause(random, "苹果", sense)
        millet, _ = clause(random, "小米", 1 - sense if conflict else random.randint(2))
        words, shift = ([*apple, "，", *millet], 0) if random.rand() < 0.5 else ([*millet, "，", *apple], len(millet) + 1)
        ids[i, : len(words)] = [WORDS.index(w) for w in words]
        rest[i] = shift + apple.index("苹果"), shift + apple.index(cue), sense
    return ids, *rest.T


CONTROLS = {  # what stands in the place of attention
    "no attention": lambda x, return_weights: (x, None),
    "bag of words": lambda x, return_weights: (x.mean(-2, keepdim=True).expand(x.shape), None),
}


def trained(kind, data, seed, steps):
    """A reader of this kind after training: (ids, places of 苹果) -> probabilities of the senses, weights of 苹果."""
    minigrad.manual_seed(seed)
    model = Model(len(WORDS), LENGTH, d=64, classes=2, causal=kind == "causal mask")
    model.attention = CONTROLS.get(kind, model.attention)
    ids, at, _, sense = (minigrad.tensor(x) for x in data)

    def loss():
        batch = minigrad.randint(0, len(ids), (64,))
        return F.cross_entropy(model(ids[batch])[0][minigrad.arange(64), at[batch]], sense[batch])

    @minigrad.no_grad()
    def read(ids, at):
        (logits, weights), rows = model(minigrad.tensor(ids)), np.arange(len(ids))
        return logits.softmax(-1).numpy()[rows, at], None if weights is None else weights.numpy()[rows, 0, at]

    train(model, loss, steps, lr=3e-3)
    return read


def run(seed=42, steps=400):
    random = np.random.RandomState(seed)
    data, test, mixed = (sentences(random, count, conflict) for count, conflict in ((4000, False), (1000, True), (1000, False)))
    ids, at, cue, sense = test
    lines, result = [line.split() for line in EXAMPLES], {}
    for kind in ("no attention", "bag of words", "attention", "causal mask"):
        read = trained(kind, data, seed, steps)
        p, weights = read(ids, at)
        right = p.argmax(-1) == sense
        result[kind] = r = {"acc": right.mean(), "before": right[cue < at].mean(), "after": right[cue > at].mean()}
        r["mixed"] = (read(*mixed[:2])[0].argmax(-1) == mixed[3]).mean()
        if weights is not None:
            hit = weights.argmax(-1) == cue
            r["argmax"], r["by sense"] = hit.mean(), [hit[sense == i].mean() for i in (0, 1)]
            r["examples"] = list(zip(lines, *read(np.array([[WORDS.index(w) for w in line] for line in lines]), [2, 2]), strict=True))
    return result


def show(words, p, weights):
    """A sentence, and under each word the weight that 苹果 gives it."""
    cells = [f"{w:.2f}" if w >= 0.005 else "." for w in weights]
    sizes = [max(width(w), len(c)) + 1 for w, c in zip(words, cells, strict=True)]
    print("  " + "".join(pad(w, s) for w, s in zip(words, sizes, strict=True)) + f" -> {SENSES[p.argmax()]} (P = {p.max():.3f})")
    print("  " + "".join(pad(c, s) for c, s in zip(cells, sizes, strict=True)).rstrip())


def main(argv=None):
    args = command_line(__doc__, steps=400, argv=argv)
    r = run(args.seed, args.steps)
    full, causal = r["attention"], r["causal mask"]
    rows = [[kind, *(f"{x[k]:.3f}" for k in ("mixed", "acc", "before", "after"))] for kind, x in r.items()]
    print(table(["share of right answers", "all sentences", "opposite senses", "cue before 苹果", "cue after 苹果"], rows))
    says = {"attention": "The weights of 苹果 in two sentences made of the same words:"}
    says["causal mask"] = "With the causal mask. In the second sentence 手机 comes after 苹果, which may not see it:"
    for kind, line in says.items():
        print(f"\n{line}")
        for example in r[kind]["examples"]:
            show(*example)
    print(f"\nThe largest weight of 苹果 is on its cue in {full['argmax']:.0%} of the sentences", end=" ")
    print(f"({', '.join(f'{SENSES[i]} {share:.0%}' for i, share in enumerate(full['by sense']))}). Where it")
    print("isn't, the answer is right all the same: no cue found for one sense speaks for the other. Weights show where a model")
    print("looks, not all that it concludes.\n")
    claim, bag = Claims(), r["bag of words"]
    claim("attention answers right (at least 97%)", full["acc"] >= 0.97)
    claim("no attention: a coin would do as well (50% +- 8)", abs(r["no attention"]["acc"] - 0.5) < 0.08)
    claim("bag of words: better than a coin on all sentences, a coin on opposite senses", abs(bag["acc"] - 0.5) < 0.08 < bag["mixed"] - 0.5)
    claim("苹果 looks at its cue first (in at least 70% of the sentences)", full["argmax"] >= 0.7)
    claim("the same words in another order: another answer", [p.argmax() for _, p, _ in full["examples"]] == [0, 1])
    claim("causal mask: right (97%) when the cue comes before", causal["before"] >= 0.97)
    claim("causal mask: a coin (50% +- 10) when the cue comes after", abs(causal["after"] - 0.5) < 0.1)
    if args.plot:
        picture = Picture(
            "Which word does 苹果 look at?",
            "Look for the square with most colour: the word that decides. Both sentences have the same words. With the causal mask the "
            "squares right of 苹果 stay empty, so 手机 is not found, and the second answer is a guess.",
        )
        for kind in ("attention", "causal mask"):
            for words, p, weights in r[kind]["examples"]:
                picture.heat_map([weights], ["苹果"], words, f"{kind}: {SENSES[p.argmax()]}, P = {p.max():.2f}")
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
