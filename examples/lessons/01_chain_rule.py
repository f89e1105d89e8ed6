"""Lesson 1. What does backward() compute, and why in that order?

A gradient says how much the result moves when an input moves a little. Four small experiments:
  1. one expression: its gradients by hand, by backward(), and by moving each input a little;
  2. a diamond: a value that is used twice gets a gradient from each use, and they add up;
  3. the order: plain recursion is either too slow or wrong; backward() goes from young to old and is neither;
  4. a broadcast bias: it is used once in each row, so its gradient is summed over the rows.
"""

import sys

from common import Claims, command_line, table
from picture import Picture

import numpy as np

import minigrad


def slope(f, x, eps=1e-6):
    """df/dx for each number in x by moving it a little, up and down: no calculus, only f itself."""
    return np.array([(f(x + step) - f(x - step)) / (2 * eps) for step in eps * np.eye(len(x))])


def expression():
    """L = y**2 with y = a b + c: rows (name, value, by hand, backward, differences)."""
    values = minigrad.randint(1, 6, (3,)).double()
    a, b, c = (value.requires_grad_() for value in values)
    y = a * b + c
    (y**2).backward()
    dy = 2 * y.item()  # dL/dy = 2 y, and from y on: dy/da = b, dy/db = a, dy/dc = 1
    by_hand = [dy * b.item(), dy * a.item(), dy]
    moved = slope(lambda v: (v[0] * v[1] + v[2]) ** 2, values.numpy())
    return [("abc"[i], x.item(), by_hand[i], x.grad.item(), moved[i]) for i, x in enumerate((a, b, c))]


def diamond():
    """L = u v with u = 3 x and v = x**2."""
    x = minigrad.randint(1, 6, (1,)).double().requires_grad_()
    u, v = 3 * x, x**2
    (u * v).sum().backward()
    paths = {"by way of u: dL/du du/dx = v * 3": 3 * v.item(), "by way of v: dL/dv dv/dx = u * 2x": 2 * x.item() * u.item()}
    return x.item(), paths, x.grad.item(), slope(lambda z: (3 * z) * z**2, x.detach().numpy()).item()


def every_path(node, g, grads):
    """Recursion that passes on each arriving gradient at once; returns the number of its steps."""
    steps = 0
    for x, vjp in node._pairs:  # the graph: each input of the op, with the function that carries the gradient to it
        dx = vjp(g)
        grads[x] = grads.get(x, 0) + dx
        steps += 1 + every_path(x, dx, grads)
    return steps


def first_visit(node, grads):
    """Recursion that goes through each node once, when it first gets there; returns the number of its steps."""
    steps = 0
    for x, vjp in node._pairs:
        new = x not in grads
        grads[x] = grads.get(x, 0) + vjp(grads[node])
        steps += 1 + (first_visit(x, grads) if new else 0)
    return steps


def stack(n):
    """y = x + x, n times over, so dy/dx = 2**n: (gradient, steps) by every path, by first visit, by backward()."""
    steps = 0

    def add(a, b):  # an op of our own: its value and one gradient function per input, which here counts its calls
        def pass_on(g):
            nonlocal steps
            steps += 1
            return g

        return a + b, pass_on, pass_on

    x = y = minigrad.tensor(1.0, requires_grad=True)
    for _ in range(n):
        y = minigrad.apply(add, y, y)
    slow, once = {}, {y: 1.0}
    found = [every_path(y, 1.0, slow), first_visit(y, once)]
    steps = 0
    y.backward()
    return [(slow[x], found[0]), (once[x], found[1]), (x.grad.item(), steps)]


def bias():
    """L = sum of c * (x + b), x (3, 2), b (2): dL/d(x + b), b.grad, and the differences."""
    x, c = minigrad.randn(3, 2).double(), minigrad.randint(1, 6, (3, 2)).double()
    b = minigrad.zeros(2).double().requires_grad_()
    y = x + b  # (3, 2): NumPy repeats b in each of the three rows
    y.retain_grad()
    (c * y).sum().backward()
    return y.grad.numpy(), b.grad.numpy(), slope(lambda b: (c.numpy() * (x.numpy() + b)).sum(), np.zeros(2))


def run(seed=42, depths=(1, 2, 3, 8, 14)):
    minigrad.manual_seed(seed)
    return {"expression": expression(), "diamond": diamond(), "stack": {n: stack(n) for n in depths}, "bias": bias()}


def main(argv=None):
    args = command_line(__doc__, argv=argv)
    r, claim = run(args.seed), Claims()
    print("1. L = y**2 with y = a b + c. By hand: dL/da = 2y b, dL/db = 2y a, dL/dc = 2y.")
    rows = r["expression"]
    print(table(["", "value", "by hand", "backward()", "moved a little"], [[n, *(f"{v:.6g}" for v in rest)] for n, *rest in rows]))
    claim("all three agree to six digits", all(h == g and abs(m - h) < 1e-6 * abs(h) for _, _, h, g, m in rows))
    x, paths, grad, moved = r["diamond"]
    print(f"\n2. The diamond: L = u v with u = 3 x and v = x**2, at x = {x:g}.")
    lines = [*paths.items(), ("sum of both", sum(paths.values())), ("backward()", grad), ("x moved a little", moved)]
    print(table(["path", "gradient at x"], [[name, f"{v:.6g}"] for name, v in lines]))
    claim("the gradients of the two uses add up; either alone is wrong", grad == sum(paths.values()) and abs(moved - grad) < 1e-6 * grad)
    print("\n3. n diamonds in a row: y = x + x, n times over, so dy/dx = 2**n. Gradient found (steps taken):")
    rows = [[n, 2**n, *(f"{g:g} ({steps})" for g, steps in found)] for n, found in r["stack"].items()]
    print(table(["n", "true", "every path", "first visit", "backward()"], rows))
    print("  Passing on each arrival at once walks all 2**n paths. Going on at the first visit passes on half a gradient. A tensor")
    print("  is younger than all it was made from, so backward() takes the youngest first: then all arrivals are in, and added.")
    claim("every path: right, but 2**(n+1) - 2 steps", all(f[0] == (2**n, 2 ** (n + 1) - 2) for n, f in r["stack"].items()))
    claim("first visit: 2 n steps, but a gradient of 2 whatever n", all(f[1] == (2, 2 * n) for n, f in r["stack"].items()))
    claim("backward(): right, in 2 n steps", all(f[2] == (2**n, 2 * n) for n, f in r["stack"].items()))
    arriving, grad, moved = r["bias"]
    print("\n4. y = x + b with x (3, 2) and b (2): b is used in three rows. dL/dy, which arrives, and dL/db:")
    rows = [[f"row {i}", *(f"{v:g}" for v in row)] for i, row in enumerate(arriving)]
    found = {"sum of the rows": arriving.sum(0), "b.grad": grad, "b moved a little": moved}
    rows += [[name, *(f"{v:.6g}" for v in row)] for name, row in found.items()]
    print(table(["", "b[0]", "b[1]"], rows))
    claim("the gradient of b is the sum over the rows", (grad == arriving.sum(0)).all() and np.allclose(grad, moved))
    if args.plot:
        picture = Picture(
            "One gradient through n diamonds",
            "Left: recursion along every path takes twice the steps for each diamond more, a straight line on this logarithmic axis; "
            "backward() takes two more. Right: recursion at the first visit is as quick, but its gradient stays at 2.",
        )
        depths, (paths, once, walk) = list(r["stack"]), zip(*r["stack"].values(), strict=True)
        for k, name, other in ((1, "steps", ("every path", paths)), (0, "gradient found", ("first visit", once))):
            curves = {"backward()": walk, other[0]: other[1]}
            picture.lines({key: (depths, [f[k] for f in found]) for key, found in curves.items()}, name, "n", "", "y")
        picture.save(args.plot)
    return claim.exit_code()


if __name__ == "__main__":
    sys.exit(main())
