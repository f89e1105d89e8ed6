"""The chapter's script: attention in four steps, with the causal mask, then many heads at once.

Written as the chapter writes it, on minigrad in PyTorch's place. Ends with an error if the mask leaks or a shape is wrong.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, installed or not
if hasattr(sys.stdout, "reconfigure"):  # not in a notebook
    sys.stdout.reconfigure(errors="replace")  # a question mark for what the terminal can't show

import layers as nn
import minigrad as torch


def check(ok: bool, what: str) -> None:
    if not ok:
        sys.exit(f"❌ {what}")


torch.manual_seed(42)
n, d_model, num_heads = 4, 8, 2
d_head = d_model // num_heads

# One head, on random Q, K, V of shape (n, d_head)
Q, K, V = torch.randn(n, d_head), torch.randn(n, d_head), torch.randn(n, d_head)

scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_head)  # (n, n): row i asks, column j answers
mask = torch.triu(torch.ones(n, n), diagonal=1).bool()  # (n, n): True above the diagonal = the future, hidden
scores = scores.masked_fill(mask, float("-inf"))
weights = torch.softmax(scores, dim=-1)  # (n, n): each row sums to 1, exactly 0 where hidden
output = torch.matmul(weights, V)  # (n, d_head)

print("注意力权重矩阵 (因果 mask 生效):")
print("      " + "".join(f"  t{j}  " for j in range(n)).rstrip())
for i, row in enumerate(weights.tolist()):
    print(f"  t{i}  [" + "  ".join(f"{w:.2f}" for w in row) + "]")

leaks = [(i, j) for i in range(n) for j in range(i + 1, n) if weights[i, j] != 0]  # counted anew, not with the mask itself
check(not leaks, f"未来位置的权重不全为 0: {leaks}")
check(torch.allclose(weights.sum(dim=-1), torch.ones(n)), f"每行之和应为 1: {weights.sum(dim=-1).tolist()}")
check(output.shape == (n, d_head), f"output 形状 {output.shape}, 应为 {(n, d_head)}")
library_output, library_weights = nn.scaled_dot_product_attention(Q, K, V, causal=True)
check(torch.equal(library_output, output) and torch.equal(library_weights, weights), "layers 与四步结果不同")

# Two heads: each token's 8 features are cut into 2 x 4, and the heads move in front as a batch
x = torch.randn(n, d_model)
heads = x.view(n, num_heads, d_head).transpose(0, 1)
check(heads.shape == (num_heads, n, d_head), f"切头后形状 {heads.shape}")

attention = nn.MultiHeadAttention(d_model, num_heads)
y, per_head = attention(x, return_weights=True)
check(y.shape == x.shape, f"输出形状 {y.shape}, 应为 {x.shape}")
check(per_head.shape == (num_heads, n, n), f"权重形状 {per_head.shape}")
check(per_head.triu(diagonal=1).equal(torch.zeros_like(per_head)), "多头注意力看到了未来")
print(f"\nMultiHeadAttention: 输入 {x.shape} → 输出 {y.shape}  ✅")
print("\n✅ step03_attention 通过")
