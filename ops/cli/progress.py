"""How far a command is, on a terminal: one line that is replaced, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(first: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done while it goes on; where nobody looks (no terminal), show nothing."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(first)
        yield lambda text: shown.update(task, description=text)
