"""The names of ``memory.http`` for type checkers; __init__.py imports each when it is first used."""

from memory.errors import HttpConnectError as HttpConnectError
from memory.errors import HttpError as HttpError
from memory.errors import HttpStatusError as HttpStatusError
from memory.errors import HttpTimeout as HttpTimeout
from memory.http.client import HttpClient as HttpClient
from memory.http.client import HttpWait as HttpWait
from memory.http.client import ServerEvent as ServerEvent
from memory.http.client import Timeouts as Timeouts
