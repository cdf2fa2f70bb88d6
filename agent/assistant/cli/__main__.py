"""``python -m tellback``: a wheel has this file as the ``__main__`` of its package."""

from __future__ import annotations

from tellback.agent.assistant.cli.launcher import main

if __name__ == "__main__":
    main()
