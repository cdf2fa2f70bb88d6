"""The registry of loaders by file ending. A new format is a loader and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

from memory.documents.loaders.base import Loader
from memory.documents.loaders.markdown import MarkdownLoader
from memory.documents.loaders.pdf import PdfLoader
from memory.documents.loaders.text import TextLoader

MARKDOWN_ENDINGS = (".md", ".markdown", ".mdown", ".mkd")
PDF_ENDINGS = (".pdf",)
TEXT_ENDINGS = (
    *(".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".log", ".srt", ".vtt"),
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".groovy"),
    *(".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".cs", ".go", ".rs", ".swift", ".m", ".mm", ".zig"),
    *(".rb", ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".clj"),
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".sql", ".proto", ".graphql", ".tf", ".nix", ".vim"),
    *(".css", ".scss", ".less", ".vue", ".svelte", ".toml", ".ini", ".cfg", ".conf", ".properties"),
    *(".yaml", ".yml", ".diff", ".patch", ".cmake", ".gradle", ".el", ".lisp", ".dart"),
)
TEXT_FILE_NAMES = frozenset(
    {"readme", "license", "licence", "copying", "authors", "changelog", "changes", "notice", "todo", "news"}
    | {"makefile", "dockerfile", "containerfile", "jenkinsfile", "vagrantfile", "rakefile", "gemfile", "procfile"}
)
"""Files without an ending that are text by custom."""
_UNSUPPORTED_ENDINGS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "HTML is not read yet; save it as Markdown or text"),
    **dict.fromkeys((".docx", ".doc", ".odt", ".rtf", ".pptx", ".xlsx"), "Office files are not read yet; save as PDF"),
    **dict.fromkeys((".json", ".jsonl", ".csv", ".tsv", ".xml"), "tables and data files are not read yet"),
    **dict.fromkeys((".epub", ".ipynb"), "this format is not read yet"),
}


class LoaderRegistry:
    """Table from file endings to loaders; *loaders* adds to the built-in ones or replaces them."""

    def __init__(self, loaders: Mapping[str, Loader] = MappingProxyType({})) -> None:
        self._text: Loader = TextLoader()
        self._by_ending: dict[str, Loader] = {
            **dict.fromkeys(MARKDOWN_ENDINGS, MarkdownLoader()),
            **dict.fromkeys(PDF_ENDINGS, PdfLoader()),
            **dict.fromkeys(TEXT_ENDINGS, self._text),
            **{ending.lower(): loader for ending, loader in loaders.items()},
        }

    def choose(self, name: str, *, given: bool = False) -> Loader | str:
        """Return the loader for a file called *name*, or the reason why there is none.

        A file that was *given* by name is tried as text when its ending says nothing.
        """
        path = PurePath(name)
        ending = path.suffix.lower()
        if loader := self._by_ending.get(ending):
            return loader
        if ending in _UNSUPPORTED_ENDINGS:
            return _UNSUPPORTED_ENDINGS[ending]
        if given or (path.name.lower() in TEXT_FILE_NAMES):
            return self._text
        return f"no loader for {ending} files" if ending else "no ending that says what it is; give it by name"
