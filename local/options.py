"""The options of `python -m local`, in a module that is quick to import."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Options(NamedTuple):
    """The ports, the data folder, the engine and the mode of a run. A port of 0 is any free port."""

    port: int
    socket_port: int
    engine_port: int | None
    data: Path
    fresh: bool
    name_or_url: str
    queue: bool
    prefix: str
    no_reload: bool
    rest_only: bool
    child: bool
    word: str

    def for_child(self) -> list[str]:
        """Return the options of a child process that runs the app."""
        options = ["--port", str(self.port), "--socket-port", str(self.socket_port), "--data", str(self.data)]
        options += ["--queue"] if self.queue else []
        options += ["--rest-only"] if self.rest_only else []
        return [*options, "--prefix", self.prefix]
