"""A Sphinx extension: a paper that a page names is a link to it, wherever it is named.

A paper is named by its authors and year, as in ``Madry et al. 2018``. One that is not in `common/papers.toml` is a warning, so
that no source stands without an address.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from robustatlas.common.papers import known, named_in

logger = logging.getLogger(__name__)


class Links(SphinxPostTransform):
    """Names of papers become links."""

    default_priority = 400

    def run(self, **_: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            parents = (nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.raw, nodes.comment)
            if any(isinstance(parent, parents) for parent in _ancestors(text)):
                continue
            made: list[nodes.Node] = []
            end = 0
            for match in named_in(text.astext()):
                paper = known(match[0])
                if paper is None:
                    if "et al" in match[0]:
                        logger.warning(
                            "%s is not in the list of papers (src/robustatlas/common/papers.toml)",
                            match[0],
                            location=text,
                        )
                    continue
                made += [
                    nodes.Text(text[end : match.start()]),
                    nodes.reference("", match[0], refuri=paper.where, reftitle=paper.title, classes=["paper"]),
                ]
                end = match.end()
            if made:
                text.parent.replace(text, [*made, nodes.Text(text[end:])])


def _ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(Links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
