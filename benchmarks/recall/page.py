"""The page ``docs/appendix/recall-measured.md``, whole: written by the command from a run and never by hand."""

from __future__ import annotations

from benchmarks.recall.report import groups_text, refusals_text, systems_text, tasks_text
from benchmarks.recall.summary import Summary

_FROM = """\
Rendered from a run of `python -m benchmarks recall` by `recall-report`. All its figures (every system by kind of
question, at other depths, with intervals, speed and memory) are in `benchmarks/results/recall.json`.
[Measuring](../measuring.md) tells how to measure, also on data of your own. `python -m benchmarks compare` prints the
paired differences of two systems or runs.
"""
_REFUSALS = """\
Share of questions that Tellback refuses: no memory is about the question, or it was said by or about somebody else.
The tasks of 1 to 20 statements ask about a memory that small; *unseen* ones were written after the bounds were chosen.
"""
_NOT_MEASURED = """\
- Answers of a language model. The run measures whether the evidence is found, not what is made of it.
- Published figures of others: they are of other questions or another unit, so none stands beside ours.
- Neural embeddings: all vectors of the run are those of a static table of words. The sentence encoder, which the
  extra `local` uses for notes and turns today, came later.
- LoCoMo's labels of evidence are incomplete, and other turns can answer too: no system reaches 1.
- LoCoMo's conversations were written by models; people answer each other less strictly.
"""
_STATUS = """\
*tuned on*: defaults of Tellback were chosen with this data, so its figures flatter Tellback. *seen*: the data was
looked at, but no default was chosen by it. *generated*: made by a rule in `benchmarks/`. *yours*: a folder that was
given. No other system was tuned on any of the data.
"""
_HOW = """\
R@k is the share of a question's evidence among the first k hits, averaged over questions; any@k is the share of
questions with some of their evidence there, all@k with all of it. MRR is the mean of 1 / rank of the first. A cell is
R@1 / R@10. A question whose recall fails counts as not found.
"""


def page(summary: Summary) -> str:
    """Return the whole page."""
    parts = [
        "# Recall, measured",
        _FROM,
        "![R@1 and R@10 of each system on each task](recall-measured.svg)",
        "## What is not measured",
        _NOT_MEASURED,
        "## Each task, all systems",
        _STATUS + "\n" + _HOW,
        tasks_text(summary),
        "## Tellback by kind of question",
        groups_text(summary),
        "## Abstention",
        _REFUSALS,
        refusals_text(summary),
        "## Systems",
        systems_text(summary.about),
        "## Machine, versions, command",
        _setting(summary),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _setting(summary: Summary) -> str:
    about = summary.about
    settings = "; ".join(
        f"{name} {value}" for name, value in about["settings"].items() if name not in ("memory", "recall")
    )
    lines = [
        f"- Machine: {about['machine']}; load average {about['load']} before the run",
        f"- Date: {about['at']}; seed {about['seed']}",
        f"- Versions: {'; '.join(f'{name} {version}' for name, version in about['versions'].items())}",
        f"- Data, by the hash of its bytes: {'; '.join(f'{name} {mark}' for name, mark in about['data'].items())}",
        f"- Settings: {settings}",
    ]
    return "\n".join(lines) + f"\n\n```text\npip install '.[local,bench]'\n{about['command']}\n```\n"
