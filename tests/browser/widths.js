// What is squeezed, clipped, split inside a word or too high on the page as it stands.
() => {
  const found = [];
  const told = (what, node) => found.push(`${what}: ${node.tagName}.${node.className} ${node.textContent.trim().slice(0, 40)}`);
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the screen");
  const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const shown = (node) => node.checkVisibility() && node.getClientRects().length > 0;
  for (const node of document.querySelectorAll("main *:not(svg *, .plot, .plot *, option, .hidden-visually)")) {
    if (node.clientWidth === 0 || node.scrollWidth <= node.clientWidth + 1 || !shown(node) || scrolls(node)) continue;
    if (getComputedStyle(node).display === "inline" || ["INPUT", "SELECT", "TEXTAREA", "PRE"].includes(node.tagName)) continue;
    if (!node.querySelector(".scroller, .plot")) told("wider than its box", node);
  }
  const rows = [...document.querySelectorAll("#board > tbody > tr:not(.detail), .stick tbody tr, .heat tbody tr")].filter(shown);
  for (const row of rows) if (row.offsetHeight > 150) told(`row of ${row.offsetHeight}`, row);
  for (const model of [...document.querySelectorAll(".model")].filter(shown)) {
    for (const text of [...model.childNodes].filter((child) => child.nodeType === 3)) {
      const range = document.createRange();
      range.selectNode(text);
      if (range.getClientRects().length > 1) told("split inside a word", model);
    }
  }
  for (const text of document.querySelectorAll(".multiple text")) {
    const [box, frame] = [text, text.ownerSVGElement].map((node) => node.getBoundingClientRect());
    if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5) told("clipped", text);
  }
  return [...new Set(found)].slice(0, 8);
}
