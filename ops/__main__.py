"""Run the commands that operate a stage: `python -m ops`."""

import sys

try:
    from ops.cli.main import main
except ModuleNotFoundError as error:  # not the Python of the environment
    if error.name and error.name.partition(".")[0] in ("ops", "chalicelib"):
        raise
    sys.exit(
        f"{error.name} is not installed in {sys.executable}. Hubbub's environment is in .venv: "
        "use .venv/bin/python -m ops (make setup creates it)"
    )

if __name__ == "__main__":
    main(prog_name="python -m ops")
