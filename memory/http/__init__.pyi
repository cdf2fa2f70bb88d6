"""The names of ``tellback.memory.http``; the package imports each when it is first used."""

from ..errors import HttpConnectError as HttpConnectError
from ..errors import HttpError as HttpError
from ..errors import HttpStatusError as HttpStatusError
from ..errors import HttpTimeout as HttpTimeout
from .client import HttpAnswer as HttpAnswer
from .client import HttpClient as HttpClient
from .client import HttpWait as HttpWait
from .client import ServerEvent as ServerEvent
from .client import Timeouts as Timeouts
from .redaction import safe_url as safe_url
