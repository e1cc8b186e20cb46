"""What Hubbub costs and how long it takes, beside the published designs: ``python -m bench``."""
