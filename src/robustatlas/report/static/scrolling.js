// @ts-check
"use strict";

/** Tables that are wider than the screen. */
const Scrolling = (() => {
  /** Say of every table that is wider than its place that it scrolls, and stop where it is not. */
  function watch() {
    const widths = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const scroller = target.classList.contains("scroller") ? target : target.closest(".scroller");
        if (!scroller) continue;
        const wide = scroller.scrollWidth > scroller.clientWidth + 1 && scroller.clientWidth > 0;
        const place = scroller.closest(".stage") ?? scroller;
        const before = place.previousElementSibling;
        const hint = before?.classList.contains("scroll-hint") ? before : null;
        if (wide && !hint) place.before(Page.make("p", { class: "scroll-hint soft small", "aria-hidden": "true" }, "The table scrolls sideways →"));
        if (!wide) hint?.remove();
      }
    });
    for (const scroller of document.querySelectorAll(".scroller")) {
      widths.observe(scroller);
      if (scroller.firstElementChild) widths.observe(scroller.firstElementChild);
    }
  }

  return { watch };
})();
