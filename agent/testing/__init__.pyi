"""The names of ``tellback.agent.testing``; the package imports each when it is first used."""

from .provider_contract import ProviderContract as ProviderContract
from .scripted import Reply as Reply
from .scripted import ScriptedProvider as ScriptedProvider
from .scripted import call as call
from .scripted import mark_in as mark_in
from .scripted import shown_items as shown_items
from .servers import AnthropicServer as AnthropicServer
from .servers import OllamaServer as OllamaServer
from .servers import OpenAIServer as OpenAIServer
from .servers import RawReply as RawReply
from .servers import RecordedRequest as RecordedRequest
from .servers import ScriptedServer as ScriptedServer
