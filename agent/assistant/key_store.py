"""Keys of models' endpoints: each in the system's keyring where there is one, else in a private file.

The file, ``config.keys.toml`` beside ``config.toml``, has a line for each endpoint: its key, or the name under which
the keyring has it. So each key belongs to one address and is sent to no other, and a command without a key need not
ask the keyring, which is slow.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import platformdirs

from tellback.agent.assistant.setting_checks import ConfigurationError, Secret

KEYRING_ORIGIN: Final = "keyring"
_REFERENCE: Final = "keyring:"
_SERVICE: Final = "tellback"
_LEAST_PRIORITY: Final = 1
"""Priority from which on the keyring library recommends a backend; those below keep keys in plain files, or nowhere."""


class KeyringSecret(Secret):
    """Key of an *endpoint* that the system's keyring has under *service*; it is read each time it is revealed."""

    __slots__ = ("_endpoint", "_service")

    def __init__(self, service: str, endpoint: str) -> None:
        super().__init__(f"{_REFERENCE}{service} {endpoint}")
        self._service, self._endpoint = service, endpoint

    def reveal(self) -> str:
        """Return the key; ``ConfigurationError`` where the keyring does not give it."""
        keyring = usable_keyring()
        problem = "the extra `keyring` is not installed, or no keyring runs"
        if keyring is not None:
            try:
                key = keyring.get_password(self._service, self._endpoint)
                if key:
                    return str(key)
                problem = "it has none"
            except Exception as error:  # backends raise what they like
                problem = f"it cannot be read ({type(error).__name__})"
        raise ConfigurationError(
            f"the key of {self._endpoint} is in the system's keyring: {problem}; "
            "`tellback config set api_key` stores it again"
        )


def usable_keyring() -> Any | None:
    """Return the module ``keyring`` where it is installed and keeps keys in more than a plain file; else None."""
    try:
        keyring = import_module("keyring")
        backend = keyring.get_keyring()
        first = next(iter(getattr(backend, "backends", (backend,))), None)
        return keyring if first is not None and first.priority >= _LEAST_PRIORITY else None
    except Exception:  # not installed, or its backend cannot start here
        return None


def keys_path(configuration: Path) -> Path:
    """Return the file of keys beside the file *configuration*."""
    return configuration.with_suffix(".keys.toml")


def read_keys(path: Path) -> dict[str, Secret]:
    """Return the keys by endpoint; nothing where there is no file."""
    return {
        endpoint: KeyringSecret(value.removeprefix(_REFERENCE), endpoint)
        if value.startswith(_REFERENCE)
        else Secret(value)
        for endpoint, value in _read_lines(path).items()
    }


def keep_key(path: Path, endpoint: str, key: str) -> Secret:
    """Keep the *key* of *endpoint* in the keyring, or else in the file at *path*; return it as it is kept.

    A keyring that does not return the key after it was set is not used.
    """
    service = _service_of(path)
    in_keyring = False
    if (keyring := usable_keyring()) is not None:
        with suppress(Exception):  # locked, refused, broken: the file keeps it then
            keyring.set_password(service, endpoint, key)
            in_keyring = keyring.get_password(service, endpoint) == key
    _write_lines(path, {**_read_lines(path), endpoint: f"{_REFERENCE}{service}" if in_keyring else key})
    return read_keys(path)[endpoint]


def remove_key(path: Path, endpoint: str) -> bool:
    """Remove the key of *endpoint*; return whether there was one."""
    lines = _read_lines(path)
    value = lines.pop(endpoint, None)
    if value is None:
        return False
    if value.startswith(_REFERENCE) and (keyring := usable_keyring()) is not None:
        with suppress(Exception):  # it may be gone already
            keyring.delete_password(value.removeprefix(_REFERENCE), endpoint)
    _write_lines(path, lines)
    return True


def kept_in(path: Path, key: Secret) -> str:
    """Return in words where *key* is kept."""
    return "the system's keyring" if isinstance(key, KeyringSecret) else f"{path} (private to you)"


def _service_of(path: Path) -> str:
    usual = path.parent == platformdirs.user_config_path("tellback") and path.name == "config.keys.toml"
    return _SERVICE if usual else f"{_SERVICE} {path}"


def _read_lines(path: Path) -> dict[str, str]:
    try:
        values: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: the file of keys cannot be read ({type(error).__name__})") from None
    if not all(isinstance(value, str) for value in values.values()):
        raise ConfigurationError(f'{path}: each line is an address and its key: "https://…" = "…"')
    return dict(values)


def _write_lines(path: Path, lines: Mapping[str, str]) -> None:
    from tellback.vectorstore.sqlite import atomic_write

    head = "# Keys by endpoint; written by `tellback config set api_key`. Keep this file private.\n"
    try:
        with atomic_write(path.resolve(), token=os.urandom, replace=True) as private:
            text = "".join(f"{json.dumps(endpoint)} = {json.dumps(value)}\n" for endpoint, value in lines.items())
            private.write_text(head + text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be changed ({error})") from error
