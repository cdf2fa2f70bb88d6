"""The page of a run: one HTML file that needs nothing else, with tables that sort and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, log
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from benchmarks.memory.data.dataset import DataSet
from benchmarks.memory.figures import BUDGETS, Result, mean_of
from benchmarks.memory.tables import Table, label, markdown, share, tables_of

_INTRODUCTION = (
    "Every system got the same items in the same order and the same questions, in a run of "
    "`python -m benchmarks memory`; figures are of this run alone."
)
_PAGE = Path(__file__).parent / "page.html"
_WIDTH, _LEFT, _RIGHT, _ROW = 900, 260, 60, 22
_CURVE_HEIGHT, _TOP, _BOTTOM = 420, 16, 36
_LABEL_GAP = 14


Runs: TypeAlias = Sequence[tuple[DataSet, Sequence[Result]]]
Curve: TypeAlias = tuple[str, Callable[[Result], Mapping[int, float]]]
_EVIDENCE: Curve = (
    "Questions with any of their evidence in the context, against its tokens. The oracle is left out.",
    lambda result: dict(zip(BUDGETS, result.curve(), strict=True)),
)
_RIGHT_ANSWERS: Curve = (
    "Questions that the reader answers right, against the tokens of its context. The oracle is left out.",
    Result.right_curve,
)


def page(runs: Runs, against: str, failures: Mapping[str, str], **shown: Any) -> str:
    """Return the page of *runs*, with the reasons why others have no figures; *shown*: see ``tables_of``."""
    parts = []
    for data, results in runs:
        parts.append(f"<h2>{escape(data.title)}</h2>")
        parts.append(_note(f"{len(data.corpora)} corpora, {len(data.questions)} questions, SHA-256 {data.hash}."))
        parts.append(_note(f"Not measured here: {data.limits}."))
        parts += [_dots(results), _curves(results, _EVIDENCE), _curves(results, _RIGHT_ANSWERS)]
        parts += [_table(table) for table in tables_of(results, against, **shown)]
        parts.append(_settings(results))
    named = "".join(f"<li>{escape(key)}: {escape(why)}</li>" for key, why in failures.items())
    parts.append(f"<h2>Named, without figures</h2><ul>{named}</ul>")
    return Template(_PAGE.read_text("utf-8")).substitute(body="\n".join(parts))


def markdown_page(runs: Runs, against: str, failures: Mapping[str, str], **shown: Any) -> str:
    """Return the tables of *runs* in Markdown."""
    parts = [f"# Memory systems, measured alike\n\n{_INTRODUCTION}\n"]
    for data, results in runs:
        parts.append(f"## {data.title}\n\nSHA-256 {data.hash}. Not measured here: {data.limits}.\n\n{made(results)}\n")
        parts += map(markdown, tables_of(results, against, **shown))
    named = "".join(f"- {key}: {why}\n" for key, why in failures.items())
    return "\n".join([*parts, f"## Named, without figures\n\n{named}"])


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col"><button>{escape(head)}</button></th>' for head in table.heads)
    rows = "".join(
        f'<tr class="{_kind(row[0])}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    body = f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<h3>{escape(table.title)}</h3>{body}{_note(table.note)}"


def _settings(results: Sequence[Result]) -> str:
    lines = (
        f"<li>{escape(label(result))}: {escape(str(result.header['settings']))}"
        f"{escape(' — ' + ', '.join(result.header['packages'])) if result.header['packages'] else ''}</li>"
        for result in results
    )
    return f"<h3>Settings</h3><ul>{''.join(lines)}</ul>{_note(made(results))}"


def made(results: Sequence[Result]) -> str:
    """Return where and when *results* were made: machine, load, commit, day."""
    headers = [result.header for result in results]
    loads = [header["load"] for header in headers if header.get("load") is not None]
    parts = [
        *dict.fromkeys(str(header["machine"]).partition("; load")[0] for header in headers),
        f"load {min(loads):.1f} to {max(loads):.1f}" if loads else "",
        *dict.fromkeys(f"commit {header['commit']}" for header in headers if header.get("commit")),
        " and ".join(sorted({str(header["made"])[:10] for header in headers})),
    ]
    return "; ".join(filter(None, parts)) + "."


def _dots(results: Sequence[Result]) -> str:
    """Return the share of questions with evidence among ten, a dot a system with its interval."""
    shown = sorted(
        ((mean_of(result.values["among 10"]), result) for result in results if not result.whole),
        key=lambda pair: -pair[0].mean,
    )
    height = _ROW * len(shown) + _BOTTOM
    scale = _WIDTH - _LEFT - _RIGHT
    lines = []
    for tenth in range(0, 11, 2):
        x = _LEFT + scale * tenth / 10
        lines.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{height - _BOTTOM + 4}"/>')
        lines.append(f'<text class="faint" x="{x:.0f}" y="{height - 14}" text-anchor="middle">{tenth / 10:.1f}</text>')
    for place, (interval, result) in enumerate(shown):
        y, kind = _ROW * place + _ROW / 2, _kind(label(result))
        low, middle, high = (_LEFT + scale * value for value in (interval.low, interval.mean, interval.high))
        lines.append(f'<text x="{_LEFT - 10}" y="{y + 4:.0f}" text-anchor="end">{escape(label(result))}</text>')
        lines.append(
            f'<line class="{kind}" stroke-width="2" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.0f}" y2="{y:.0f}"/>'
        )
        lines.append(f'<circle class="{kind}" cx="{middle:.1f}" cy="{y:.0f}" r="4"/>')
        lines.append(f'<text class="faint" x="{high + 8:.0f}" y="{y + 4:.0f}">{share(interval.mean)}</text>')
    return _figure(
        height, lines, "Questions with any of their evidence among the first ten, with 95 per cent intervals."
    )


def _curves(results: Sequence[Result], what: Curve) -> str:
    """Return *what* against the tokens of the context, a line a system; empty where no system has it."""
    title, curve_of = what
    ranked = [result for result in results if not result.whole and result.key != "oracle"]
    curves = [(label(result), curve_of(result)) for result in ranked]
    curves = [(name, curve) for name, curve in curves if any(curve.values())]
    budgets = sorted({budget for _, curve in curves for budget in curve})
    if len(budgets) < 2:
        return ""
    span = log(budgets[-1] / budgets[0])
    x_of = {one: _RIGHT + (_WIDTH - _LEFT - 1.5 * _RIGHT) * log(one / budgets[0]) / span for one in budgets}
    left, right = x_of[budgets[0]], x_of[budgets[-1]]
    most = max(value for _, curve in curves for value in curve.values())
    step = next(step for step in (0.05, 0.1, 0.2) if most <= 5 * step or step == 0.2)
    top = step * ceil(most / step)
    depth = _CURVE_HEIGHT - _TOP - _BOTTOM
    lines = []
    for number in range(round(top / step) + 1):
        y = _TOP + depth * (1 - number * step / top)
        lines.append(f'<line class="grid" x1="{left:.0f}" x2="{right:.0f}" y1="{y:.0f}" y2="{y:.0f}"/>')
        tick = f'<text class="faint" x="{left - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">'
        lines.append(f"{tick}{number * step:.2f}</text>")
    for budget, x in x_of.items():
        lines.append(f'<text class="faint" x="{x:.0f}" y="{_CURVE_HEIGHT - 14}" text-anchor="middle">{budget:,}</text>')
    ends = sorted((_TOP + depth * (1 - curve[max(curve)] / top), name, curve) for name, curve in curves)
    text_y = -_LABEL_GAP
    for y, name, curve in ends:
        text_y = max(y, text_y + _LABEL_GAP)
        points = " L".join(f"{x_of[one]:.1f},{_TOP + depth * (1 - value / top):.1f}" for one, value in curve.items())
        lines.append(f'<g class="{_kind(name)}"><path d="M{points}"><title>{escape(name)}</title></path>')
        lines.append(f'<path class="lead" d="M{right + 2:.0f},{y:.0f} L{right + 14:.0f},{text_y:.0f}"/>')
        lines.append(f'<text x="{right + 18:.0f}" y="{text_y + 4:.0f}">{escape(name)}</text></g>')
    height = max(_CURVE_HEIGHT, round(text_y) + _LABEL_GAP)
    return _figure(height, lines, title)


def _figure(height: int, lines: Sequence[str], caption: str) -> str:
    drawn = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(caption)}">{"".join(lines)}</svg>'
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _kind(name: str) -> str:
    return "ours" if name.startswith("Tellback") else "theirs"
