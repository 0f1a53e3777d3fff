"""The main job at work: ``python -m example_app.demo``."""
