"""Run the commands that operate a stage: `python -m ops`, or `hubbub` in the environment's `bin`."""

import sys
from pathlib import Path

IS_SCRIPT = not __package__  # `hubbub` runs this file by its path, in any directory
if IS_SCRIPT:
    sys.path[0] = str(Path(__file__).parents[1])

if __name__ == "__main__":
    try:
        from ops.cli.main import main

        main(prog_name="hubbub" if IS_SCRIPT else "python -m ops")
    except ModuleNotFoundError as error:  # not the Python of the environment
        if error.name and error.name.partition(".")[0] in ("ops", "chalicelib", "app"):
            raise
        sys.exit(
            f"{error.name} is not installed in {sys.executable}. Hubbub's environment is in .venv: "
            "use .venv/bin/python -m ops (make setup creates it)"
        )
