"""How the documentation is built; see `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_tools"))

from robustatlas import __version__  # noqa: E402

project = "robustatlas"
author = "the robustatlas developers"
project_copyright = "the robustatlas developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.duration",
    "plain",
    "paper_links",
    "sphinx_copybutton",
    "myst_parser",
    "board",
    "source_links",
    "accessible",
    "narrow",
]
exclude_patterns = ["_build", "_tools", "board", "board-cifar10"]
default_role = "code"

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autosummary_generate = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 96
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
myst_fence_as_directive = []
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = f"robustatlas {version}"
html_short_title = "robustatlas"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_logo = None
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0a6670",
        "color-brand-content": "#0a6670",
        "color-brand-visited": "#0a6670",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc6cf",
        "color-brand-content": "#5cc6cf",
        "color-brand-visited": "#5cc6cf",
    },
    "light_logo": "mark.svg",
    "dark_logo": "mark-dark.svg",
    "navigation_with_keys": True,
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
