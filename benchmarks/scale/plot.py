"""Picture of one namespace at growing sizes: milliseconds of a question, both axes logarithmic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_LINES = (
    ("file_vector_ms", "file, vector, hot", "#888888", "-"),
    ("hot_vector_ms", "server, vector, hot", "#1f6fb4", "-"),
    ("cold_vector_ms", "server, vector, first question", "#1f6fb4", ":"),
    ("vector_vector_ms", "server, vector, HNSW", "#c2410c", "-"),
    ("hot_words_ms", "server, words, hot", "#15803d", "-"),
    ("vector_words_ms", "server, words, postings", "#15803d", "--"),
)


def write_plot(results: dict[str, Any], path: Path) -> None:
    """Write the SVG at *path*."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scale"})
    from matplotlib import pyplot as plt

    rows = sorted(results["large"], key=lambda row: row["size"])
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
