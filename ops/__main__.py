"""Run the commands that operate a stage: `python -m ops`."""

from ops.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m ops")
