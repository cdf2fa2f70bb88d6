"""The names of ``tellback.memory.jobs``; the package imports each when it is first used."""

from .memory_work import INGEST as INGEST
from .memory_work import memory_handlers as memory_handlers
from .queue import ClaimedJob as ClaimedJob
from .queue import Job as Job
from .queue import JobLost as JobLost
from .queue import Jobs as Jobs
from .queue import JobState as JobState
from .worker import JobHandler as JobHandler
from .worker import JobWorker as JobWorker
