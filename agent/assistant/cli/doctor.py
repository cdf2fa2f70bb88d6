"""``tellback doctor``: checks of the installation, the settings, the endpoints and the memory file, with remedies.

Secrets are never shown, and nothing is created: a missing memory file stays missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import global_options, required_file, run
from tellback.agent.assistant.cli.errors import (
    EXIT_FAILED,
    EXIT_FILE,
    EXIT_PARTIAL,
    EXIT_USAGE,
    describe_error,
)
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import (
    describe_profile,
    format_minute,
    print_json,
    print_note,
    print_table,
    print_text,
)
from tellback.agent.assistant.local_time import local_now
from tellback.agent.assistant.synced_folder import SYNCED_REMEDY, synced_warning

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings, Configuration
    from tellback.memory import LongTermMemory
    from tellback.memory.http import HttpClient

_FINDING_LIMIT = 20
_MIN_FREE_BYTES = 100_000_000
_PROBE_SECONDS = 20
_SALVAGE_REMEDY = (
    "`tellback restore` shows backups and puts one back; `tellback doctor --salvage NEW` saves what is left"
)


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """Result of one check: whether it is fine, the observation, the remedy; *code* is the exit code if not."""

    name: str
    fine: bool
    seen: str
    remedy: str = ""
    code: int = EXIT_FAILED


def check_installation() -> Iterator[DoctorCheck]:
    """Check Python and the libraries that the packages need."""
    from importlib.metadata import PackageNotFoundError, version

    import apsw

    from tellback.memory.internals import MEMORY_LIMITED, local_available
    from tellback.vectorstore import MissingExtra

    yield DoctorCheck("python", True, f"{sys.version.split()[0]} ({sys.executable})")
    yield DoctorCheck("sqlite", True, apsw.sqlite_lib_version())
    for library in ("sqlite-vec", "tiktoken"):
        try:
            yield DoctorCheck(library, True, version(library))
        except PackageNotFoundError:
            yield DoctorCheck(library, False, "not installed", f"pip install {library}")
    local = local_available()
    meaning = "" if local else f"words alone are searched; for meaning: {MissingExtra('meaning', 'local').install}"
    yield DoctorCheck("local embedder", True, "installed" if local else "not installed", meaning)
    missing = [name for name, module in (("PDF", "pypdfium2"), ("Excel", "openpyxl")) if find_spec(module) is None]
    read = f"{' and '.join(missing)} not read" if missing else "all formats read"
    bounds = "time and memory" if MEMORY_LIMITED else "time; this system has no limit of their memory"
    remedy = MissingExtra(" and ".join(missing), "docs").install if missing else ""
    yield DoctorCheck("documents", True, f"{read}, by processes with limits of {bounds}", remedy)


def check_token_counts() -> DoctorCheck:
    """Report whether tokens are counted exactly."""
    from tellback.memory import default_counter

    counter = default_counter()
    if counter.exact:
        return DoctorCheck("token counts", True, f"exact for models of OpenAI ({counter.name}), estimated for others")
    return DoctorCheck("token counts", True, "estimated, rather too many than too few")


def _check_mcp_servers(settings: AssistantSettings) -> DoctorCheck:
    """Check the MCP servers of the settings without connecting them."""
    from tellback.agent.assistant.config import ConfigurationError
    from tellback.agent.assistant.wiring import make_mcp_servers
    from tellback.vectorstore import MissingExtra

    try:
        names = ", ".join(make_mcp_servers(settings))
    except ConfigurationError as error:
        return DoctorCheck("mcp servers", False, str(error), "docs/mcp.md has the keys", EXIT_USAGE)
    if find_spec("mcp") is None:
        return DoctorCheck("mcp servers", False, f"{names}: not usable", MissingExtra("it", "mcp").install, EXIT_USAGE)
    return DoctorCheck("mcp servers", True, names)


def check_settings(configuration: Configuration) -> Iterator[DoctorCheck]:
    """List the settings with their origins; a file with a key in it must be private."""
    from tellback.agent.assistant.config import KEY_SETTINGS
    from tellback.memory.http import safe_url

    settings, origins, path = configuration.settings, configuration.origins, configuration.path
    yield DoctorCheck("configuration", True, str(path) if path.exists() else f"{path} (not there; nothing needs it)")
    has_model = settings.model is not None
    values = (
        ("model", settings.model or "none: statements are kept, questions are answered by quotes"),
        ("provider", settings.model_endpoint.kind if has_model else "quotes"),
        ("base_url", safe_url(settings.model_endpoint.url) if has_model else "not used"),
        ("api_key", "set" if settings.key_setting and getattr(settings, settings.key_setting) else "not set"),
        ("embedder", settings.embedder),
        ("namespace", settings.namespace or "(default)"),
        ("offline", "yes: only this machine may be asked" if settings.offline else "no"),
    )
    for name, value in values:
        yield DoctorCheck(name, True, value + (f" (from {origins[name]})" if name in origins else ""))
    yield from _check_kept_keys(configuration)
    if settings.mcp.servers:
        yield _check_mcp_servers(settings)
    has_secrets = any(server.get("headers") or server.get("env") for server in settings.mcp.servers.values())
    has_key = has_secrets or any(origins.get(name) == str(path) for name in KEY_SETTINGS)
    if has_key and os.name == "posix" and path.stat().st_mode & 0o077:
        seen = "it holds a key, and others may read it"
        yield DoctorCheck("configuration", False, seen, f"chmod 600 {path}", EXIT_USAGE)


def _check_kept_keys(configuration: Configuration) -> Iterator[DoctorCheck]:
    """Report where keys are kept; the keyring must return them, and their file must be private."""
    from tellback.agent.assistant.config import ConfigurationError
    from tellback.agent.assistant.key_store import kept_in, keys_path, read_keys

    path = keys_path(configuration.path)
    for endpoint, key in read_keys(path).items():
        try:
            key.reveal()
        except ConfigurationError as error:
            yield DoctorCheck("key", False, str(error), code=EXIT_USAGE)
        else:
            yield DoctorCheck("key", True, f"for {endpoint}, in {kept_in(path, key)}")
    if path.exists() and os.name == "posix" and path.stat().st_mode & 0o077:
        yield DoctorCheck("keys", False, f"others may read {path}", f"chmod 600 {path}", EXIT_USAGE)


def check_endpoints(settings: AssistantSettings) -> Iterator[DoctorCheck]:
    """Ask the model's endpoint which models it has, and the embedder for one vector."""

    async def model() -> str:
        from tellback.agent.assistant.wiring import make_provider

        async with _probe_client(settings) as client:
            provider: Any = make_provider(settings, client)  # every provider of an endpoint lists its models
            known = settings.model_endpoint.name in [model.name for model in await provider.models()]
        return "it answers, and has the model" if known else f"it answers, without {settings.model} in its list"

    async def embedder() -> str:
        from tellback.agent.assistant.wiring import make_embedder

        async with _probe_client(settings) as client:
            chosen = make_embedder(settings, client)
            assert chosen is not None
            (vector,) = await chosen.embed(["probe"])
        return f"it answers, with vectors of {len(vector)} numbers"

    for name, wanted, probe in (
        ("model's endpoint", settings.model is not None, model),
        ("embedder's endpoint", settings.embeds_at_an_endpoint, embedder),
    ):
        if wanted:
            try:
                yield DoctorCheck(name, True, run(probe()))
            except Exception as error:  # any failure of the endpoint is a finding of this check
                code, line = describe_error(error)
                yield DoctorCheck(name, False, line, "is it running, and are address and key right?", code)


def check_memory_file(configuration: Configuration) -> Iterator[DoctorCheck]:
    """Open an existing memory file, verify every row, and count its contents."""
    settings, former = configuration.settings, configuration.former_memory
    path = settings.file
    if path is not None and not settings.is_begun:
        yield DoctorCheck("memory file", True, f"{path} (not there yet; the first write makes it)")
        if former is not None:
            remedy = f"tellback --memory {former} …, or move {former.parent} to {path.parent}"
            yield DoctorCheck("former memory", True, f"{former}, of the former version, is not used", remedy)
        return
    from tellback.agent.assistant.wiring import open_configured_memory
    from tellback.vectorstore import DamageError

    try:
        opened = open_configured_memory(settings, create=False)
    except Exception as error:  # any failure to open the file is a finding of this check
        code, line = describe_error(error)
        if code == EXIT_USAGE:
            yield DoctorCheck("settings", False, line, code=EXIT_USAGE)
            return
        remedy = (
            _SALVAGE_REMEDY
            if isinstance(error, DamageError)
            else "`tellback restore` shows backups and puts one back; or name another file"
        )
        yield DoctorCheck("memory file", False, line, remedy, EXIT_FILE)
        return
    try:
        if path is None:
            yield DoctorCheck("memory", True, f"{settings.shown_memory}: its server and its role can be used")
        else:
            yield DoctorCheck("memory file", True, f"{path}, {path.stat().st_size / 1e6:.1f} MB")
            yield from _access_checks(path)
            yield from _backup_checks(opened.memory, settings, path)
        yield from _content_checks(opened.memory, settings)
    finally:
        run(opened.close())


def _access_checks(path: Path) -> Iterator[DoctorCheck]:
    from tellback.vectorstore.sqlite import unfinished_files

    if os.name == "posix":
        mode = path.stat().st_mode & 0o777
        private = not mode & 0o077
        yield DoctorCheck("private", private, f"mode {mode:04o}", "" if private else f"chmod 600 {path}", EXIT_FILE)
    free = shutil.disk_usage(path.parent).free
    remedy = "" if free >= _MIN_FREE_BYTES else "make room: writing may fail soon"
    if (warning := synced_warning(path)) is not None:
        yield DoctorCheck("synced folder", True, warning, SYNCED_REMEDY)
    yield DoctorCheck("disk", not remedy, f"{free / 1e9:.1f} GB free", remedy, EXIT_FILE)
    for copy in unfinished_files(path.parent):
        remedy = "it may hold texts of the memory: delete it unless another command is writing it now"
        yield DoctorCheck("unfinished copy", True, str(copy), remedy)


def _backup_checks(memory: LongTermMemory, settings: AssistantSettings, path: Path) -> Iterator[DoctorCheck]:
    """Report the last backup and damaged ones; every backup is read whole."""
    backups = run(memory.backups(check=True))
    whole = [backup for backup in backups if not backup.note]
    size = sum(backup.bytes for backup in backups if backup.automatic) / 1e6
    seen = f"the last of {format_minute(max(backup.at for backup in whole))}" if whole else "none yet"
    automatic = f"automatic ones take {size:.1f} of {settings.backup_space} MB"
    remedy = "" if whole else "`tellback backup` makes one; the first write of a day does, too"
    if not settings.automatic_backups:
        automatic, remedy = "no automatic ones", "`tellback config set automatic_backups yes` has one made each day"
    elif path.stat().st_size > settings.backup_space * 1_000_000:
        remedy = "the memory is larger than backups may be: `tellback config set backup_space MEGABYTES`"
    yield DoctorCheck("backups", True, f"{seen}; {automatic}", remedy)
    for backup in backups:
        if backup.bytes and backup.note:
            remedy = "`tellback doctor --fix` removes it" if backup.automatic else "make another one: tellback backup"
            yield DoctorCheck("backup", False, f"{backup.path}: damaged: {backup.note}", remedy, EXIT_FILE)


def fix_backups(settings: AssistantSettings) -> Iterator[DoctorCheck]:
    """Remove damaged automatic backups, finish erasures that are due in backups, and make today's backup."""
    if settings.file is None or not settings.is_begun:
        return
    from tellback.agent.assistant.wiring import open_configured_memory
    from tellback.memory.internals import make_daily_backup, remove_backup
    from tellback.vectorstore.sqlite import SqliteDatabase

    try:
        opened = open_configured_memory(settings, create=False)
    except Exception:  # the check of the file reports what is wrong with it
        return
    try:
        database = opened.memory.database
        assert isinstance(database, SqliteDatabase)
        opened.memory.erase_due()
        for backup in run(opened.memory.backups(check=True)):
            if backup.automatic and backup.note:
                remove_backup(database, backup.path)
                yield DoctorCheck("backup", True, f"removed, it was damaged: {backup.path}")
    finally:
        run(opened.close())
    if settings.automatic_backups:
        limit = settings.backup_space * 1_000_000
        now = local_now()
        if (path := make_daily_backup(settings.file.absolute(), now=now, max_bytes=limit)) is not None:
            yield DoctorCheck("backup", True, f"made: {path}")


def _content_checks(memory: LongTermMemory, settings: AssistantSettings) -> Iterator[DoctorCheck]:
    from tellback.vectorstore import lifecycle_of
    from tellback.vectorstore.sqlite import SqliteDatabase

    yield DoctorCheck("memories", True, f"{run(memory.count(namespace=settings.namespace))} in this namespace")
    waiting = run(memory.pending())
    remedy = "the next write with a working embedder fills them" if waiting else ""
    yield DoctorCheck("vectors", True, f"{waiting} are still to come" if waiting else "complete", remedy)
    yield from _embedding_checks(memory)
    limit, kept = memory.embedding.settings.cache_bytes, memory.embedding.kept()
    if limit or kept:
        used = f"of at most {limit / 1e6:.1f} MB" if limit else "of passages of long memories, and from before"
        yield DoctorCheck("embedding cache", True, f"{kept / 1e6:.1f} MB of vectors {used}")
    store = lifecycle_of(memory.store)
    if store is not None:
        yield DoctorCheck("language", True, f"{store.analyzer.language}: that of stems, stop words and cues")
        if store.pending_erasure():
            yield DoctorCheck("erasure", True, "bytes of what was forgotten wait for another process to leave")
        database = store.database
        copies = database.migration_copies() if isinstance(database, SqliteDatabase) else {}
        findings = store.verify()
        for finding in findings[:_FINDING_LIMIT]:
            yield DoctorCheck("content", False, str(finding), _SALVAGE_REMEDY, EXIT_FILE)
        if not findings:
            yield DoctorCheck("content", True, "every row is as it was written")
            yield from _line_checks(memory, settings)
        for path, time in copies.items():
            seen = f"the copy of {time[:16]}, from before it, stays: {path}"
            remedy = "it holds what is forgotten since then, too: delete it when it is not needed any more"
            yield DoctorCheck("upgrade", True, seen, remedy)


def _line_checks(memory: LongTermMemory, settings: AssistantSettings) -> Iterator[DoctorCheck]:
    """Report the share of memories with a line that says what they are about, by its author, and who writes others."""
    from tellback.agent.assistant.cli.about import line_writer_shown
    from tellback.agent.assistant.line_process import LineRecord, allowed_tokens
    from tellback.agent.assistant.wiring import writes_lines

    counts = run(memory.stats(namespace=settings.namespace))
    described = sum(counts.lines.values())
    authors = ", ".join(f"{count} by a {by}" for by, count in counts.lines.items())
    seen = f"{described} of {counts.memories} memories say it" + (f" ({authors})" if authors else "")
    remedy = (
        "`tellback memories about --missing` lists the others, --write lets the model write"
        if described < counts.memories
        else ""
    )
    yield DoctorCheck("what memories are about", True, seen, remedy)
    if not (settings.line_client or writes_lines(settings)):
        seen = "nobody by itself: clients, and `tellback memories about --write`"
        yield DoctorCheck("lines are written by", True, seen, "`tellback config set lines` names who may")
        return
    record, bounded = LineRecord.of(settings), allowed_tokens(settings) is not None
    seen = line_writer_shown(settings)
    seen += f"; {record.tokens:,} of {settings.line_tokens:,} tokens today" if bounded else ""
    failed = f"; the last try failed ({record.failure})" if record.failure else ""
    remedy = "`tellback memories about --write` says why; the next try comes in an hour" if record.failure else ""
    yield DoctorCheck("lines are written by", not record.failure, seen + failed, remedy)


def _embedding_checks(memory: LongTermMemory) -> Iterator[DoctorCheck]:
    """Compare the embedder's probes with those in the file; report an unfinished space migration."""
    import asyncio

    from tellback.memory import LocalEmbedder
    from tellback.memory.internals import encoder_available

    async def mismatch() -> str | None:
        async with asyncio.timeout(_PROBE_SECONDS):
            return await memory.embedding.mismatch()

    progress = run(memory.reembedding())
    if progress is not None:
        seen = f"{progress.done} of {progress.total} entries have a vector of the next embedder"
        remedy = "`tellback reembed` goes on, `tellback reembed --abandon` drops it"
        yield DoctorCheck("re-embedding", True, seen, remedy)
    space, problem = memory.store.space, None
    if memory.embedder is None:
        seen = "none: words alone are searched"
    elif space is None:
        seen = memory.embedder.fingerprint
    else:
        try:
            problem = run(mismatch())
            seen = problem or f"{space.fingerprint}, as when the file was filled"
        except Exception as error:  # the check of the endpoint reports what is wrong with it
            seen = f"{space.fingerprint}; not compared with the file: {describe_error(error)[1]}"
    remedy = "words alone are searched; `tellback reembed` mends it" if problem else ""
    if not remedy and type(memory.embedder) is LocalEmbedder and encoder_available():
        remedy = "`tellback reembed` gives notes the sentence encoder, which finds them asked in other words"
    yield DoctorCheck("embedder in use", not problem, seen, remedy, EXIT_USAGE)
    if space is not None and not problem:
        yield DoctorCheck("embedder profile", True, describe_profile(memory))


def check_residents() -> Iterator[DoctorCheck]:
    """Report the resident processes that answer hooks; one that gives no answer is a finding."""
    from tellback.agent.assistant.cli.resident import report_line, resident_reports

    for report in resident_reports():
        fine = report["outcome"] == "done"
        remedy = "" if fine else "hooks are answered without it, slowly; `tellback resident stop` ends it"
        yield DoctorCheck("resident process", fine, report_line(report), remedy)


def check_clients() -> Iterator[DoctorCheck]:
    """Check what is registered in clients: can the server be started, are hooks called, did they fail."""
    from tellback.agent.assistant.clients.registration import start_failure
    from tellback.agent.assistant.clients.registry import CLIENTS, HOOK_CLIENTS
    from tellback.agent.assistant.hooks.health import hook_health
    from tellback.agent.assistant.hooks.run_log import paused_since

    servers = {client.name: tuple(client.server_file.registered()) for client in CLIENTS}
    failures = {command: start_failure(command) for command in {*servers.values()} if command}
    for name, command in servers.items():
        if command:
            failure = failures[command]
            remedy = f"then `tellback install {name}` writes it anew, if its program has moved" if failure else ""
            yield DoctorCheck(f"server of {name}", not failure, failure or f"{command[0]} can be started", remedy)
    for client in HOOK_CLIENTS:
        health = hook_health(client)
        if health is not None:
            yield DoctorCheck(f"hooks of {client.name}", health.fine, health.seen, health.remedy)
    if (since := paused_since()) is not None:
        seen = f"paused since {format_minute(since)}"
        yield DoctorCheck("hooks", True, seen, "`tellback hooks resume` has them go on")


def _probe_client(settings: AssistantSettings) -> HttpClient:
    from tellback.memory.http import HttpClient, Timeouts

    return HttpClient(timeout=Timeouts(connect=5, read=10, write=10, total=20), retries=0, offline=settings.offline)


def doctor(
    context: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Mend backups.")] = False,
    salvage: Annotated[
        Path | None,
        typer.Option(metavar="NEW", help="Save what can be read of a damaged memory in the new file NEW."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check everything, and say what to do.

    Looks at the installation, the settings, the endpoints that are set, every row of the memory file, and the hooks in
    other clients. With --salvage it copies each part of the memory file, row by row, into NEW, which must not exist,
    and says what was lost; the file itself stays as it is.
    """
    configuration = global_options(context).configuration()
    fixes = [*fix_backups(configuration.settings)] if fix else []
    if salvage is not None:
        _salvage(required_file(configuration.settings, "doctor --salvage"), salvage, json=json)
        return
    checks = [
        *check_installation(),
        *fixes,
        check_token_counts(),
        *check_settings(configuration),
        *check_endpoints(configuration.settings),
        *check_memory_file(configuration),
        *check_residents(),
        *check_clients(),
    ]
    wrong = [check for check in checks if not check.fine]
    if json:
        print_json({"fine": not wrong, "checks": checks})
    else:
        for check in checks:
            print_text(f"{'ok ' if check.fine else 'BAD'}  {check.name}: {check.seen}", indent="     ")
            if check.remedy:
                print_text(f"     -> {check.remedy}", indent="        ")
        print_text(f"{len(wrong)} of {len(checks)} checks found something wrong" if wrong else "everything is fine")
    if wrong:
        raise typer.Exit(wrong[-1].code)


def _salvage(path: Path, new: Path, *, json: bool) -> None:
    """Save the readable rows of the memory file at *path* in *new*; exit with ``EXIT_PARTIAL`` where rows were lost."""
    from tellback.memory import salvage_memory

    report = salvage_memory(path, str(new))
    if json:
        print_json(report)
    else:
        rows = [
            (part.table, str(part.saved), "some" if part.lost is None else str(part.lost)) for part in report.tables
        ]
        print_table(("part", "saved", "lost"), [row for row in rows if row[1:] != ("0", "0")])
        for part in report.tables:
            for reason in part.reasons:
                print_note(f"{part.table}: {reason}")
        if any(part.reasons for part in report.tables if part.table in ("namespaces", "history_sessions")):
            new_memory = f"tellback --memory {report.path}"
            print_note(f"     -> `{new_memory} memories namespaces` lists the namespaces, `--namespace NAME` reads one")
        for finding in report.findings:
            print_note(f"still wrong in {report.path}: {finding}")
        print_text(f"saved in {report.path}; {path} is as it was")
        print_text(
            f"     -> look at it: tellback --memory {report.path} doctor; then put it in the place of the old one"
        )
    if not report.whole:
        print_note("tellback: not everything could be saved")
        raise typer.Exit(EXIT_PARTIAL)
