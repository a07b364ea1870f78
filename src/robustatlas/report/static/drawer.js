// @ts-check
"use strict";

/** The drawer in which the reader chooses the attacks and strengths that count, while the board beside it ranks again. */
const Drawer = (() => {
  const { make } = Page;

  /**
   * @param {Board} board
   * @param {(changes: Partial<State>) => void} change
   * @param {() => Choice} chosen what counts now
   */
  function of(board, change, chosen) {
    const { everyLevel, select, officialSelection } = Address.of(board);
    /** @type {Map<string, {box: HTMLInputElement, from: HTMLSelectElement, to: HTMLSelectElement, name: HTMLElement}>} */
    const choosers = new Map();

    function build() {
      const target = Page.element("attacks");
      let group = "";
      for (const attack of board.attacks) {
        const oneUnit = board.attacks.every((other) => other.group !== attack.group || other.axis === attack.axis);
        if (attack.group !== group) {
          group = attack.group;
          target.append(make("h3", {}, oneUnit ? `${group}: ${attack.axis}` : group));
        }
        target.append(chooserOf(attack, oneUnit));
      }
      for (const button of document.querySelectorAll("[data-preset]")) {
        button.addEventListener("click", () => change({ selection: preset(button.getAttribute("data-preset") ?? "") }));
      }
      const open = Page.element("choose");
      const show = (/** @type {boolean} */ shown) => {
        Page.element("drawer").hidden = !shown;
        Page.element("stage").classList.toggle("choosing", shown);
        open.setAttribute("aria-expanded", String(shown));
      };
      open.addEventListener("click", () => show(Page.element("drawer").hidden));
      const close = () => {
        show(false);
        open.focus();
      };
      Page.element("drawer-close").addEventListener("click", close);
      document.addEventListener("keydown", ({ key }) => { if (key === "Escape" && !Page.element("drawer").hidden && !document.querySelector("dialog[open]")) close(); });
    }

    /**
     * @param {Attack} attack
     * @param {boolean} oneUnit whether its whole group has the same unit, which then stands above
     */
    function chooserOf(attack, oneUnit) {
      const box = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", value: attack.name }));
      const options = () => attack.written.map((strength, level) => make("option", { value: `${level}` }, strength));
      const [from, to] = ["from", "to"].map((word) => /** @type {HTMLSelectElement} */ (
        make("select", { "aria-label": `${attack.label}: strengths ${word}` }, ...options())));
      const name = make("span", { class: "name" }, attack.label);
      box.addEventListener("change", () => selectLevels(attack, box.checked ? everyLevel(attack) : []));
      from.addEventListener("change", () => selectRange(attack, Number(from.value), Math.max(Number(from.value), Number(to.value))));
      to.addEventListener("change", () => selectRange(attack, Math.min(Number(from.value), Number(to.value)), Number(to.value)));
      choosers.set(attack.name, { box, from, to, name });
      return make("div", { class: "attack" }, make("label", {}, box, name), from, make("span", { class: "soft small" }, "to"), to,
        ...(oneUnit ? [] : [make("span", { class: "unit" }, attack.axis)]));
    }

    /** @param {string} name @returns {Choice} */
    function preset(name) {
      if (name === "all") return select(() => true);
      if (name === "norms") return select((attack) => attack.group === "Norms");
      if (name === "none") return {};
      if (name === "official") return officialSelection();
      return Object.fromEntries(board.attacks.filter((attack) => chosen()[attack.name]).map((attack) => {
        const levels = everyLevel(attack);
        const half = Math.ceil(levels.length / 2);
        return [attack.name, name === "weak" ? levels.slice(0, half) : name === "strong" ? levels.slice(-half) : levels];
      }));
    }

    /**
     * @param {Attack} attack
     * @param {number[]} levels
     */
    function selectLevels(attack, levels) {
      const { [attack.name]: _, ...others } = chosen();
      change({ selection: levels.length > 0 ? { ...others, [attack.name]: levels } : others });
    }

    /**
     * @param {Attack} attack
     * @param {number} from
     * @param {number} to
     */
    function selectRange(attack, from, to) {
      selectLevels(attack, everyLevel(attack).slice(from, to + 1));
    }

    function draw() {
      for (const attack of board.attacks) {
        const chooser = choosers.get(attack.name);
        const levels = chosen()[attack.name] ?? [];
        if (!chooser) continue;
        const first = levels[0] ?? 0;
        const last = levels.at(-1) ?? attack.strengths.length - 1;
        chooser.box.checked = levels.length > 0;
        chooser.from.disabled = chooser.to.disabled = levels.length === 0;
        chooser.from.value = `${first}`;
        chooser.to.value = `${last}`;
        const gaps = levels.length > 0 && levels.length < last - first + 1;
        chooser.name.textContent = gaps ? `${attack.label} (${Page.counted(levels.length, "strength")})` : attack.label;
      }
    }

    build();
    return { draw };
  }

  return { of };
})();
