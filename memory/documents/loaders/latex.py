"""The loader of LaTeX as Markdown: sections, lists and verbatim text are kept; commands become their words. Rules.

It is no TeX: macros of the document's own are not expanded, and formulas stay as they are written.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.documents.loaders.text import decode_text

_VERBATIM: Final = re.compile(
    r"\\begin\{(?P<name>verbatim\*?|lstlisting|minted|Verbatim)\}(?:\[[^\]]*\])?(?:(?<=minted\})\{[^}]*\})?\n?"
    r"(?P<code>.*?)\n?[ \t]*\\end\{(?P=name)\}",
    re.DOTALL,
)
_COMMENT: Final = re.compile(r"(?m)^[ \t]*%.*\n|(?<!\\)%.*")
_LEVELS: Final = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
_HEADING: Final = re.compile(rf"\\({'|'.join(_LEVELS)})\*?(?:\[[^\]]*\])?\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")
_TITLE: Final = re.compile(r"\\title(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}")
_CODE: Final = re.compile(
    r"\\(?:texttt|lstinline|code|path|verb(?P<mark>[|!+]))\{?(?P<code>[^{}|!+\n]*)(?:(?P=mark)|\})"
)
_LINK: Final = re.compile(r"\\href\{[^{}]*\}\{([^{}]*)\}")
_ITEM: Final = re.compile(r"[ \t]*\\item(?:\[([^\]]*)\])?[ \t]*")
_WITHOUT_WORDS: Final = re.compile(
    r"\\(?:label|ref|eqref|pageref|cite\w*|index|bibliography\w*|includegraphics|usepackage|vspace|hspace|input|include|"
    r"pagestyle|setlength|newcommand|renewcommand|hypersetup|documentclass)\*?(?:\[[^\]]*\])*(?:\{(?:[^{}]|\{[^{}]*\})*\})*"
)
_BEFORE_STOP: Final = re.compile(rf"(?:[ \t~]*{_WITHOUT_WORDS.pattern})+(?=[.,;:!?)])")
"""Commands without words between a word and the full stop behind it, with the blanks before them."""
_ENVIRONMENT: Final = re.compile(r"[ \t]*\\(?:begin|end)\{[^{}]*\}(?:\[[^\]]*\]|\{[^{}]*\})*")
_COMMAND: Final = re.compile(r"\\[a-zA-Z]+\*?(?:\[[^\]]*\])?[ \t]?")
_LINE_BREAK: Final = re.compile(r"\\\\\*?(?:\[[^\]\n]*\])?")
_SPACES: Final = re.compile(r"\\[,;:! ]")
_ESCAPED: Final = re.compile(r"\\([%&$#_{}])")
_MATH: Final = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$|(?<!\\)\\\[.*?\\\]|(?<!\\)\\\(.*?\\\)", re.DOTALL)
_KEPT: Final = re.compile("\ue000(\\d+)\ue001")
_NO_MARKS: Final = {0xE000: None, 0xE001: None}
"""Characters of private use that mark what is kept as it is written, and may themselves be in a file."""


def read_latex(data: bytes, source: str) -> LoadedDocument:
    """Return the body as Markdown; what stands before it gives the title alone."""
    text, notes = decode_text(data, source)
    kept: list[str] = []

    def keep(passage: str) -> str:
        kept.append(passage)
        return f"\ue000{len(kept) - 1}\ue001"

    def restored(passage: str) -> str:
        return _KEPT.sub(lambda match: restored(kept[int(match[1])]), passage)

    text = text.translate(_NO_MARKS)
    text = _VERBATIM.sub(lambda match: keep(f"\n\n```\n{match['code']}\n```\n\n"), text)
    text = _COMMENT.sub("", text)
    title = _TITLE.search(text)
    begin, end = text.find("\\begin{document}"), text.rfind("\\end{document}")
    body = text[begin + 16 if begin >= 0 else 0 : end if end >= 0 else len(text)]
    body = _MATH.sub(lambda match: keep(match[0]), _TITLE.sub("", body))
    body = _HEADING.sub(lambda match: f"\n\n{'#' * _LEVELS[match[1]]} {' '.join(match[2].split())}\n\n", body)
    body = _CODE.sub(lambda match: keep(f"`{match['code']}`"), body)
    body = _plain(_ITEM.sub(lambda match: f"\n- {match[1] + ': ' if match[1] else ''}", _LINK.sub(r"\1", body)))
    body = re.sub(r"[ \t]*\n[ \t]*", "\n", body)
    body = restored(body)
    return LoadedDocument(
        text=re.sub(r"\n{3,}", "\n\n", body).strip(),
        title=" ".join(_plain(title[1]).split()) if title is not None else "",
        notes=notes,
    )


def _plain(text: str) -> str:
    """Return *text* with the words of its commands and without their names."""
    text = _WITHOUT_WORDS.sub("", _BEFORE_STOP.sub("", _LINE_BREAK.sub("\n", text)))
    text = _COMMAND.sub("", _ENVIRONMENT.sub("\n", text))
    text = re.sub(r"(?<!\\)[{}]", "", text)
    return _ESCAPED.sub(r"\1", _SPACES.sub(" ", text)).replace("~", " ").replace("``", "“").replace("''", "”")
