"""A Sphinx extension: a picture that has another one for narrow screens beside it (`curves.png`, `curves-narrow.png`)."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

WIDTH = "40rem"
IMAGE = re.compile(r'<img [^>]*src="(?P<folder>[^"]*/)(?P<stem>[^"/]+)(?P<suffix>\.\w+)"[^>]*>')


def narrow_of(app: Sphinx, uri: str) -> Path | None:
    """The picture for narrow screens of one that is named as from the sources' folder."""
    path = Path(app.srcdir) / uri
    narrow = path.with_name(f"{path.stem}-narrow{path.suffix}")
    return narrow if narrow.is_file() else None


def collect(app: Sphinx, tree: nodes.document) -> None:
    """Know the narrow pictures of a page."""
    for image in tree.findall(nodes.image):
        if narrow := narrow_of(app, image["uri"]):
            name = narrow.relative_to(app.srcdir).as_posix()
            app.env.images.add_file(app.env.docname, name)
            app.env.note_dependency(name)


def offer(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Let browsers choose, and have the site hold what they may."""
    sources = {held: name for name, (_, held) in app.env.images.items()}

    def chosen(image: re.Match[str]) -> str:
        narrow = f"{image['stem']}-narrow{image['suffix']}"
        if narrow not in sources:
            return image[0]
        app.builder.images[sources[narrow]] = narrow
        source = f'<source media="(max-width: {WIDTH})" srcset="{image["folder"]}{narrow}"/>'
        return f"<picture>{source}{image[0]}</picture>"

    context["body"] = IMAGE.sub(chosen, context.get("body", ""))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", collect)
    app.connect("html-page-context", offer)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
