// Every number of a report as it stands in the document.
() => {
  const text = (node) => node.textContent.replace(/\s+/g, " ").trim();
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const said = (node) => node.getAttribute("aria-label");
  const row = (tr) => [...tr.children].map((cell) => (cell.matches(".cell") ? said(cell) : text(cell)));
  const traces = (plot) => plot.data.filter((trace) => trace.customdata).map(({ x, y, customdata }) => ({ x: [...x], y: [...y], ends: customdata.map((said) => said.slice(0, 2)) }));
  return {
    tables: Object.fromEntries(all("main .scroller > table").map((table) => [said(table.parentElement), all("tbody tr", table).map(row)])),
    plots: all(".card").map((card) => [card.dataset.attack, traces(card.querySelector(".plot"))]),
    charts: all(".chart").map((chart) => all("path.found", chart).map((line) => line.getAttribute("d"))),
    said: all(".chart, .card .plot, [data-figure]").map(said),
    head: all(".headline, .findings, p.certified").map(text).join(" "),
  };
}
