"""Picture of one namespace at growing sizes: ``python docs/scaling_picture.py`` writes docs/scaling.svg.

Milliseconds of a question, both axes logarithmic, from ``benchmarks/results/scale.json``. It needs matplotlib.
"""

from __future__ import annotations

import json
from pathlib import Path

_LINES = (
    ("file_vector_ms", "file, vector, hot", "#888888", "-"),
    ("hot_vector_ms", "server, vector, hot", "#1f6fb4", "-"),
    ("cold_vector_ms", "server, vector, first question", "#1f6fb4", ":"),
    ("vector_vector_ms", "server, vector, HNSW", "#c2410c", "-"),
    ("hot_words_ms", "server, words, hot", "#15803d", "-"),
    ("vector_words_ms", "server, words, postings", "#15803d", "--"),
)


def write_plot(results: Path, path: Path) -> None:
    """Write the SVG at *path*."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scale"})
    from matplotlib import pyplot as plt

    rows = sorted(json.loads(results.read_text("utf-8"))["large"], key=lambda row: row["size"])
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label, color, style in _LINES:
        axes.loglog(
            [row["size"] for row in rows], [row[name] for row in rows], style, color=color, label=label, marker="o"
        )
    axes.set_xlabel("entries of the namespace")
    axes.set_ylabel("milliseconds of a question")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    docs = Path(__file__).parent
    write_plot(docs.parent / "benchmarks" / "results" / "scale.json", docs / "scaling.svg")
