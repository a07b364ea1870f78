"""A Sphinx extension: from a name's source code back to where it is documented.

viewcode links all names of a file by the module that the first of them is documented in. Here one may be documented as
`robustatlas.Attack`, and its neighbour in the same file as `robustatlas.attacks.definition.stages_of`.
"""

import re
from importlib import import_module
from operator import attrgetter
from typing import Any

from sphinx.application import Sphinx

BACK = re.compile(
    r'id="(?P<name>[^"]+)">\n<a class="viewcode-back" href="[^"#]*?(?P<doc>[^"#/]+)\.html#(?P<anchor>[^"]+)"'
)


def defining_module(module: str, name: str) -> str:
    """Return the module in which a name of another module is defined; empty if it is not known."""
    try:
        return str(getattr(attrgetter(name)(import_module(module)), "__module__", ""))
    except (AttributeError, ImportError):
        return ""


def documented_anchor(app: Sphinx, module: str, name: str, document: str) -> str | None:
    """Return the anchor on a document's page for a name in a module's source."""
    for full, entry in app.env.domains.python_domain.objects.items():
        owner = full.removesuffix(f".{name}")
        if owner != full and entry.docname.endswith(document) and defining_module(owner, name) == module:
            return entry.node_id
    return None


def correct_back_links(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    if not page.startswith("_modules/robustatlas"):
        return
    module = page.removeprefix("_modules/").replace("/", ".")

    def corrected(link: re.Match[str]) -> str:
        anchor = documented_anchor(app, module, link["name"], link["doc"]) or link["anchor"]
        return link[0].removesuffix(f'{link["anchor"]}"') + f'{anchor}"'

    context["body"] = BACK.sub(corrected, context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", correct_back_links)
    return {"parallel_read_safe": True}
