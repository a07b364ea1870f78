"""A Sphinx extension: ``{generated} NAME`` is a table of `facts.TABLES`, read when the page is built."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from facts import TABLES
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"there is no generated table {name!r}; expected one of {', '.join(sorted(TABLES))}")
        holder = nodes.container()
        self.state.nested_parse(StringList(TABLES[name]().splitlines(), name), self.content_offset, holder)
        return list(holder.children)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
