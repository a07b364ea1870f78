"""A Sphinx extension: a picture that has another one for narrow screens beside it (`curves.png`, `curves-narrow.png`)."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

WIDTH = "40rem"
IMAGE = re.compile(r'<img [^>]*src="(?P<folder>[^"]*/)(?P<stem>[^"/]+)(?P<suffix>\.\w+)"[^>]*>')


def narrow_picture(app: Sphinx, uri: str) -> Path | None:
    """Return the picture for narrow screens beside a picture; None if there is none."""
    path = Path(app.srcdir) / uri
    narrow = path.with_name(f"{path.stem}-narrow{path.suffix}")
    return narrow if narrow.is_file() else None


def collect(app: Sphinx, tree: nodes.document) -> None:
    """Add the narrow pictures of a page to the site's images."""
    for image in tree.findall(nodes.image):
        if narrow := narrow_picture(app, image["uri"]):
            name = narrow.relative_to(app.srcdir).as_posix()
            app.env.images.add_file(app.env.docname, name)
            app.env.note_dependency(name)


def offer(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Let browsers choose between the pictures of a page, and copy those into the site."""
    sources = {held: name for name, (_, held) in app.env.images.items()}

    def with_narrow_source(image: re.Match[str]) -> str:
        narrow = f"{image['stem']}-narrow{image['suffix']}"
        if narrow not in sources:
            return image[0]
        app.builder.images[sources[narrow]] = narrow
        source = f'<source media="(max-width: {WIDTH})" srcset="{image["folder"]}{narrow}"/>'
        return f"<picture>{source}{image[0]}</picture>"

    context["body"] = IMAGE.sub(with_narrow_source, context.get("body", ""))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", collect)
    app.connect("html-page-context", offer)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
