"""How the documentation is built: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "flask_jobs"
author = "the flask_jobs contributors"
release = version = version_of("flask_jobs")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
]
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write `names` in single backticks

smartquotes = False  # it would make dashes of option names

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "flask_jobs"
pygments_style = "default"
