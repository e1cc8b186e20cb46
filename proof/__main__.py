"""Run ``python -m proof``."""

from proof.cli import main

if __name__ == "__main__":
    main()
