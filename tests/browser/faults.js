// What a page that is sound in any browser does not have.
() => {
  const found = [];
  const told = (what, node) => found.push(`${what}: ${node.outerHTML.slice(0, 120)}`);
  const shown = (node) => node.checkVisibility() && node.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (!document.title.trim()) found.push("no title");
  if (!document.querySelector("meta[name=description]")?.content.trim()) found.push("no description");
  if (!document.documentElement.lang) found.push("no language");
  if (!all("meta[name=viewport]").some((meta) => /width=device-width/.test(meta.content) && !/user-scalable=no|maximum-scale/.test(meta.content))) found.push("no viewport");
  if (document.doctype?.name !== "html" || document.characterSet !== "UTF-8") found.push("no HTML in UTF-8");
  for (const image of all("img")) {
    if (!image.hasAttribute("alt")) told("image without words", image);
    if (shown(image) && image.complete && image.naturalWidth === 0) told("image that is not there", image);
  }
  const ids = all("[id]").map((node) => node.id);
  for (const id of new Set(ids)) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id twice: ${id}`);
  const levels = all("h1, h2, h3, h4").filter(shown).map((node) => Number(node.tagName[1]));
  if (levels[0] !== 1 || levels.filter((level) => level === 1).length !== 1) found.push(`headings begin ${levels.slice(0, 3)}`);
  levels.forEach((level, i) => { if (i > 0 && level > levels[i - 1] + 1) found.push(`heading ${i} skips a level`); });
  for (const anchor of all("a[href^='#']")) if (!document.getElementById(decodeURIComponent(anchor.hash.slice(1)))) told("link to nowhere", anchor);
  // Links inside of sentences are as high as their line.
  for (const target of all("button, select, summary, input:not([type=checkbox], [type=radio])").filter(shown)) {
    const { width, height } = target.getBoundingClientRect();
    if ((width < 24 || height < 24) && getComputedStyle(target).display !== "inline") told(`target of ${Math.round(width)} x ${Math.round(height)}`, target);
  }
  for (const box of all("input[type=checkbox], input[type=radio]").filter(shown)) {
    const target = (box.closest("label") ?? box).getBoundingClientRect();
    if (innerWidth <= 640 && (target.width < 24 || target.height < 24)) told(`target of ${Math.round(target.width)} x ${Math.round(target.height)}`, box);
  }
  return [...new Set(found)].slice(0, 12);
}
