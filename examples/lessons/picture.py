"""The lessons' pictures, written as SVG: nothing to learn from here about attention.

Text stays text, colours follow the reader's light or dark background, and one colour scale shows weights everywhere.
"""

import math
import textwrap
import unicodedata
from xml.sax.saxutils import escape

STYLE = """svg{--ink:#1f2328;--soft:#656d76;--line:#d0d7de;--paper:#fff;--on:#fff;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df}
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--paper:#0d1117;--on:#0d1117;
--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff}}
text{font:13px system-ui,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;fill:var(--ink)}
.m{text-anchor:middle}.e{text-anchor:end}.s{font-size:11px;fill:var(--soft)}.n{font-size:10px}.o{font-size:10px;fill:var(--on)}
.h{font-weight:600;font-size:15px}.b{font-weight:600}.p{fill:var(--paper)}.g{stroke:var(--line)}.w{fill:var(--c0)}
path,.g{fill:none}path{stroke-width:2}.g{stroke-width:1}.c0{stroke:var(--c0)}
.c1{stroke:var(--c1);stroke-dasharray:7 4}.c2{stroke:var(--c2);stroke-dasharray:2 3}
.c3{stroke:var(--c3);stroke-dasharray:9 3 2 3}"""


def width(text):
    """Columns that a text takes on the screen: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Picture:
    """An SVG picture: panels from left to right, then the caption that says what to look for. Text stays text."""

    def __init__(self, title, caption, width=860):
        self.title, self.caption, self.width, self.parts = title, caption, width, []
        self.x, self.y, self.bottom = 20, 50, 50

    def _place(self, wide, high):
        if self.x > 20 and self.x + wide > self.width - 20:
            self.x, self.y = 20, self.bottom
        x, y = self.x, self.y
        self.x, self.bottom = x + wide + 30, max(self.bottom, y + high + 20)
        return x, y

    def _text(self, x, y, text, kind=""):
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(str(text))}</text>')

    def heat_map(self, weights, rows, columns, title, cell=30):
        """One square per weight, the deeper the colour the nearer to 1; weights from 0.05 on also as a number."""
        left = 8 + 7 * max(map(width, rows))
        x, y = self._place(max(left + cell * len(columns), 7 * width(title)), 46 + cell * len(rows))
        self._text(x, y + 13, title, "b")
        x, y = x + left, y + 40
        for j, name in enumerate(columns):
            self._text(x + cell * (j + 0.5), y - 6, name, "m")
        for i, name in enumerate(rows):
            self._text(x - 6, y + cell * (i + 0.5) + 4, name, "e")
            for j, w in enumerate(map(float, weights[i])):
                if w >= 0.005:  # what is less can't be seen
                    box = f'x="{x + cell * j}" y="{y + cell * i}" width="{cell}" height="{cell}"'
                    self.parts.append(f'<rect {box} class="w" fill-opacity="{w:.2f}"/>')
                if w >= 0.05 and cell >= 26:
                    self._text(x + cell * (j + 0.5), y + cell * (i + 0.5) + 4, f"{w:.2f}", "m o" if w > 0.7 else "m n")
        self.parts.append(f'<rect x="{x}" y="{y}" width="{cell * len(columns)}" height="{cell * len(rows)}" class="g"/>')

    def lines(self, series, title, x_label, y_label, log="", wide=390, high=250):
        """A line for each {name: (xs, ys)}; log is "", "x", "y" or "xy"."""
        x0, y0 = self._place(wide, high + (82 if title else 64) + 18 * len(series))
        if title:
            self._text(x0, y0 + 13, title, "b")
            y0 += 18
        for i, name in enumerate(series):
            self.parts.append(f'<path d="M{x0} {y0 + 9 + 18 * i}h28" class="c{i}"/>')
            self._text(x0 + 36, y0 + 13 + 18 * i, name)
        self._text(x0, y0 + 18 + 18 * len(series), y_label, "s")
        x0, y0, wide = x0 + 44, y0 + 26 + 18 * len(series), wide - 54
        all_x, all_y = (sorted({float(v) for line in series.values() for v in line[k]}) for k in (0, 1))
        place_x, ticks_x = axis(all_x, "x" in log, all_x if len(all_x) <= 8 else None)
        place_y, ticks_y = axis(all_y, "y" in log)
        for v, name in ticks_y:
            y = y0 + high - high * place_y(v)
            self.parts.append(f'<path d="M{x0} {y:.1f}h{wide}" class="g"/>')
            self._text(x0 - 6, y + 4, name, "e s")
        for v, name in ticks_x:
            self._text(x0 + wide * place_x(v), y0 + high + 16, name, "m s")
        self._text(x0 + wide / 2, y0 + high + 34, x_label, "m s")
        for i, (xs, ys) in enumerate(series.values()):
            points = [f"{x0 + wide * place_x(a):.1f} {y0 + high - high * place_y(b):.1f}" for a, b in zip(xs, ys, strict=True)]
            self.parts.append(f'<path d="M{"L".join(points)}" class="c{i}"/>')

    def save(self, file):
        for line in textwrap.wrap(self.caption, self.width // 7):
            self._text(20, self.bottom + 10, line)
            self.bottom += 19
        size = f'viewBox="0 0 {self.width} {self.bottom + 10}" width="{self.width}" height="{self.bottom + 10}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>{escape(self.title)}</title><style>{STYLE}</style>'
        body = ['<rect width="100%" height="100%" class="p"/>', f'<text x="20" y="30" class="h">{escape(self.title)}</text>']
        with open(file, "w", encoding="utf-8") as f:
            f.write("\n".join([head, *body, *self.parts, "</svg>\n"]))
        print(f"  picture: {file}")


def axis(values, log, ticks=None):
    """Where a value stands on an axis (0..1), and the (value, name) pairs to write along it. A plain axis starts at 0 or below."""
    scale = math.log10 if log else float
    low, high = scale(values[0]), scale(values[-1])
    if log and ticks is None:
        step = math.ceil((math.ceil(high) - math.floor(low)) / 6) or 1
        ticks = [10.0**p for p in range(math.floor(low / step) * step, math.ceil(high) + 1, step)]
    elif ticks is None:
        low = min(low, 0.0)
        step = 10.0 ** math.floor(math.log10((high - low) / 2 or 1))
        step *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step) <= 6)
        ticks = [step * k for k in range(math.ceil(low / step), math.ceil(high / step) + 1)]
    low, high = min(low, scale(ticks[0])), max(high, scale(ticks[-1]))
    names = [f"1e{round(scale(t))}" if log and not 0.01 < t < 1e4 else f"{t:g}" for t in ticks]
    return lambda v: (scale(v) - low) / ((high - low) or 1), list(zip(ticks, names, strict=True))
