// Texts of the page, also in pictures, that are smaller than 11 pixels or stand out from their ground by less than 4.5.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const pixel = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, share, below) => below.map((value, i) => value * (1 - share) + top[i] * share);
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => value / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(pixel(getComputedStyle(at).backgroundColor));
      if (layers.at(-1)[3] === 255) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, layer[3] / 255, below), [255, 255, 255]);
  };
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const element = texts.currentNode.parentElement;
    if (!text || element.closest("script, style, template, noscript") || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = getComputedStyle(element);
    const picture = element.closest("svg") && element.getScreenCTM?.();
    const size = parseFloat(style.fontSize) * (picture ? Math.hypot(picture.a, picture.b) : 1);
    const ground = groundOf(element);
    const ink = pixel(picture ? style.fill : style.color);
    const [high, low] = [light(over(ink, (ink[3] / 255) * style.opacity, ground)), light(ground)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (size < 10.95 || contrast < 4.45) found.add(`${text.slice(0, 30)} (${element.className.baseVal ?? element.className}): ${size.toFixed(1)} px, contrast ${contrast.toFixed(2)}`);
  }
  return [...found];
}
