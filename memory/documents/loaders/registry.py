"""The registry of loaders: chosen by a file's ending, and by its content where the ending is silent or wrong.

A new format is a function that reads it and a line in ``FORMATS``. A user's own loader is registered under an ending
and runs in this process; formats that are parsed by code which hostile bytes could break are read in workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, Loader, LoadLimits, UnknownFormat
from tellback.memory.documents.loaders.content import is_binary, known_content
from tellback.memory.documents.loaders.workers import WorkerPool
from tellback.vectorstore import MissingExtra


@dataclass(frozen=True, slots=True)
class Format:
    """Format that is read, by ``read_NAME`` in a module of this folder, with the endings that name it.

    *version* is raised when equal bytes come to give another text; *text* is the media type of that (see ``Loader``).
    *module* is the format's name where it is not given. An *isolated* format is parsed in a worker, a *limited* one is
    read with the limits; *library* is the module of the extra ``docs`` that it needs. *media_types* are its names in
    the headers of web pages and mails.
    """

    name: str
    version: int
    endings: tuple[str, ...]
    text: str = "text/plain"
    module: str = ""
    isolated: bool = True
    limited: bool = False
    library: str = ""
    media_types: tuple[str, ...] = ()


_CODE_ENDINGS: Final = (
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".groovy", ".dart"),
    *(".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".cs", ".go", ".rs", ".swift", ".m", ".mm", ".zig"),
    *(".rb", ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".clj"),
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".sql", ".proto", ".graphql", ".tf", ".nix", ".vim"),
    *(".vue", ".svelte", ".cmake", ".gradle", ".el", ".lisp"),
)
_TEXT_ENDINGS: Final = (
    *(".txt", ".text", ".adoc", ".asciidoc", ".org", ".log", ".srt", ".vtt", ".diff", ".patch"),
    *(".toml", ".ini", ".cfg", ".conf", ".properties", ".yaml", ".yml", ".css", ".scss", ".less", ".sass", ".styl"),
)
_MARKDOWN: Final = "text/markdown"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument.text"
FORMATS: Final = (
    Format(
        "markdown", 3, (".md", ".markdown", ".mdown", ".mkd"), _MARKDOWN, isolated=False, media_types=("text/markdown",)
    ),
    Format("text", 2, _TEXT_ENDINGS, isolated=False, media_types=("text/plain",)),
    Format("code", 1, _CODE_ENDINGS, "text/x-code", isolated=False),
    Format(
        "html", 3, (".html", ".htm", ".xhtml", ".shtml"), _MARKDOWN, media_types=("text/html", "application/xhtml+xml")
    ),
    Format(
        "docx",
        1,
        (".docx", ".docm", ".dotx"),
        _MARKDOWN,
        limited=True,
        media_types=(f"{_OFFICE}.wordprocessingml.document",),
    ),
    Format(
        "pptx",
        1,
        (".pptx", ".pptm", ".ppsx"),
        _MARKDOWN,
        limited=True,
        media_types=(f"{_OFFICE}.presentationml.presentation",),
    ),
    Format(
        "xlsx",
        2,
        (".xlsx", ".xlsm"),
        _MARKDOWN,
        "tables",
        limited=True,
        library="openpyxl",
        media_types=(f"{_OFFICE}.spreadsheetml.sheet",),
    ),
    Format("odt", 1, (".odt",), _MARKDOWN, limited=True, media_types=(_OPEN_DOCUMENT,)),
    Format("epub", 1, (".epub",), _MARKDOWN, limited=True, media_types=("application/epub+zip",)),
    Format("mail", 1, (".eml",), limited=True, media_types=("message/rfc822",)),
    Format("mbox", 1, (".mbox",), module="mail", limited=True, media_types=("application/mbox",)),
    Format("ipynb", 2, (".ipynb",), _MARKDOWN, "json_data", media_types=("application/x-ipynb+json",)),
    Format("json", 1, (".json",), module="json_data", media_types=("application/json",)),
    Format("jsonl", 2, (".jsonl", ".ndjson"), module="json_data", media_types=("application/x-ndjson",)),
    Format("csv", 1, (".csv", ".tsv", ".tab"), module="tables", media_types=("text/csv", "text/tab-separated-values")),
    Format("ics", 1, (".ics",), module="calendar", media_types=("text/calendar",)),
    Format("latex", 1, (".tex", ".ltx"), _MARKDOWN, media_types=("application/x-latex", "text/x-tex")),
    Format("rtf", 1, (".rtf",), library="striprtf", media_types=("application/rtf", "text/rtf")),
    Format("ocr", 1, (), limited=True, media_types=("image/png", "image/jpeg", "image/tiff")),
    Format("rst", 1, (".rst", ".rest"), _MARKDOWN, "restructured_text", isolated=False),
    Format("pdf", 2, (".pdf",), "application/pdf", limited=True, library="pypdfium2", media_types=("application/pdf",)),
)
TEXT_FILE_NAMES: Final = frozenset(
    {"readme", "license", "licence", "copying", "authors", "changelog", "changes", "notice", "todo", "news"}
    | {"makefile", "dockerfile", "containerfile", "jenkinsfile", "vagrantfile", "rakefile", "gemfile", "procfile"}
)
"""Files without an ending that are text by custom."""
_BY_NAME: Final = {known.name: known for known in FORMATS}
_BY_MEDIA_TYPE: Final = {media_type: known for known in FORMATS for media_type in known.media_types}
_BY_ENDING: Final = {ending: known for known in FORMATS for ending in known.endings}
_MAILS: Final = frozenset({"mail", "mbox"})
_DOUBTFUL: Final = dict.fromkeys(("code", "markdown"), _MAILS | {"html"})
"""Contents that a file may seem to have by its first lines although its ending is right: by format, else mails."""
_OLD_OFFICE: Final = "an Office file of the old binary kind; save it as .docx, .xlsx, .pptx or PDF"
MEDIA_ENDINGS: Final = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp", ".tif", ".tiff", ".ico"), "a picture"),
    **dict.fromkeys((".avif", ".heic", ".xpm", ".xcf", ".psd", ".eps"), "a picture"),
    **dict.fromkeys((".mp3", ".ogg", ".opus", ".flac", ".wav", ".m4a"), "sound"),
    **dict.fromkeys((".mp4", ".mkv", ".webm", ".mov", ".avi"), "a video"),
    **dict.fromkeys((".woff", ".woff2", ".ttf", ".otf", ".eot"), "a font"),
}
"""Endings of files that hold no text."""
_RECOGNISED_ENDINGS: Final = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"})
"""Pictures whose text is recognised if they are given by name: in a folder most are no pictures of text."""
_UNREADABLE_ENDINGS: Final = MEDIA_ENDINGS | {
    **dict.fromkeys((".doc", ".xls", ".ppt"), _OLD_OFFICE),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst"), "an archive; unpack it first"),
}


@dataclass(frozen=True, slots=True)
class _FormatLoader:
    """Loader of a built-in *format* in this process, or in *workers*; *packed* bytes are gunzipped there first."""

    format: Format
    limits: LoadLimits
    workers: WorkerPool | None = None
    packed: bool = False

    @property
    def name(self) -> str:
        own = f"{self.format.name}/{self.format.version}"
        return f"gzip/1 {own}" if self.packed else own

    @property
    def media_type(self) -> str:
        return self.format.text

    def load(self, data: bytes, source: str) -> LoadedDocument:
        known = self.format
        if known.library and find_spec(known.library) is None:
            raise MissingExtra(f"reading {known.name.upper()} files", "docs")
        if self.workers is not None:
            return self.workers.load(known.name, data, source, packed=self.packed)
        module = import_module(f"tellback.memory.documents.loaders.{known.module or known.name}")
        read = getattr(module, f"read_{known.name}")
        document: LoadedDocument = read(data, source, self.limits) if known.limited else read(data, source)
        return document


@dataclass(frozen=True, slots=True)
class Unreadable:
    """File that no loader reads, with the *reason*."""

    reason: str


class LoaderRegistry:
    """Choice of a loader for each file; *loaders* by ending add to the built-in ones or replace them.

    Its workers are started when they are first needed, and ended by ``close``. Any thread may call. A registry that is
    not *isolated* parses in this process: it is the one inside a worker.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader] = MappingProxyType({}),
        *,
        limits: LoadLimits = DEFAULT_LIMITS,
        isolated: bool = True,
    ) -> None:
        self.limits = limits
        self._isolated = isolated
        self._own = {ending.lower(): loader for ending, loader in loaders.items()}
        self._workers = WorkerPool(limits)
        self.parallel = self._workers.count
        """Number of files that can be parsed at once."""
        self._loaders: dict[tuple[str, bool], _FormatLoader] = {}

    def close(self) -> None:
        """End the workers; the next file that needs one starts another."""
        self._workers.close()

    def choose(self, name: str, *, by_name: bool = False) -> Loader | Unreadable | None:
        """Return the loader for a file called *name*; None where its content decides; ``Unreadable`` for no loader.

        The content of a file that the user named (*by_name*) is looked at when its ending says nothing.
        """
        path = PurePath(name)
        ending = path.suffix.lower()
        if loader := self._own.get(ending):
            return loader
        if ending == ".gz":
            inner = self.choose(path.stem, by_name=True)
            if isinstance(inner, _FormatLoader):
                return self._loader(inner.format, packed=True)
            return inner if isinstance(inner, Unreadable) else self._loader(_BY_NAME["text"], packed=True)
        if known := _BY_ENDING.get(ending):
            if ending == ".txt":  # guide.rst.txt
                known = _BY_ENDING.get(PurePath(path.stem).suffix.lower(), known)
            return self._loader(known)
        if by_name and ending in _RECOGNISED_ENDINGS:
            return self._loader(_BY_NAME["ocr"])
        if ending in _UNREADABLE_ENDINGS:
            return Unreadable(_UNREADABLE_ENDINGS[ending])
        if path.name.lower() in TEXT_FILE_NAMES:
            return self._loader(_BY_NAME["text"])
        return None if by_name or not ending else Unreadable(f"no loader for {ending} files")

    def choose_by_type(self, name: str, media_type: str) -> Loader | None:
        """Return the loader for *media_type*, as a web server or a mail names it, else for the file *name*."""
        plain = media_type.partition(";")[0].strip().casefold()
        by_name = self.choose(name, by_name=True)
        known = _BY_MEDIA_TYPE.get(plain)
        if known is not None and not (plain == "text/plain" and isinstance(by_name, _FormatLoader)):
            return self._loader(known)
        return None if isinstance(by_name, Unreadable) else by_name

    def for_content(self, chosen: Loader | None, data: bytes, source: str) -> Loader:
        """Return the loader for *data*: the *chosen* one, unless the bytes are plainly of another format.

        Raises ``LoadError`` for bytes of no known format that are not text either.
        """
        if chosen is not None and not isinstance(chosen, _FormatLoader):
            return chosen
        content = known_content(data)
        if content == "old office":
            raise UnknownFormat(source, _OLD_OFFICE)
        if content == "gzip" and (chosen is None or not chosen.packed):
            return self._loader(_BY_NAME["text"] if chosen is None else chosen.format, packed=True)
        known = _BY_NAME.get(content)
        if chosen is not None and content in _DOUBTFUL.get(chosen.format.name, _MAILS):
            return chosen
        if chosen is not None and (known is None or chosen.packed):
            return chosen
        if known is None and is_binary(data):
            raise UnknownFormat(source, "a binary file of no format that is read")
        return self._loader(known or _BY_NAME["text"])

    def _loader(self, known: Format, *, packed: bool = False) -> _FormatLoader:
        loader = self._loaders.get((known.name, packed))
        if loader is None:
            workers = self._workers if self._isolated and (known.isolated or packed) else None
            loader = self._loaders[known.name, packed] = _FormatLoader(known, self.limits, workers, packed)
        return loader


def type_names(name: str) -> frozenset[str]:
    """Return all words for the type of a file called *name*: its ending, its format and the media types of that."""
    path = PurePath(name)
    ending = path.suffix.lower()
    inner = type_names(path.stem) if ending == ".gz" else frozenset()
    known = _BY_ENDING.get(ending)
    names = {ending.removeprefix(".")} | (set() if known is None else {known.name, *known.media_types})
    return inner | (names - {""})


def load_document(
    data: bytes, name: str, *, media_type: str = "", limits: LoadLimits = DEFAULT_LIMITS
) -> LoadedDocument:
    """Return the text of the file *name* with the content *data*, of *media_type* if its name does not tell the format.

    Raises ``LoadError`` for what cannot be read, ``MissingExtra`` where the library that reads it is not installed.
    """
    loaders = LoaderRegistry(limits=limits)
    try:
        return loaders.for_content(loaders.choose_by_type(name, media_type), data, name).load(data, name)
    finally:
        loaders.close()


def load_directly(format: str, data: bytes, source: str, limits: LoadLimits, *, packed: bool) -> LoadedDocument:
    """Return what the loader of *format* makes of *data* in this process; for the worker alone."""
    if packed:
        from tellback.memory.documents.loaders.archive import gunzip

        data = gunzip(data, source, limits)
        format = known_content(data) if known_content(data) in _BY_NAME else format
    return _FormatLoader(_BY_NAME[format], limits).load(data, source)
