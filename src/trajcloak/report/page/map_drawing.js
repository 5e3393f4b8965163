// The map on its canvas: what part of it is seen, and how cloaks are drawn.

const MARGIN = 12;
const CLOSEST = 32;
const FAINTEST = 0.04; // fainter fills add up to wrong colours, since canvases round

class MapDrawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.backdrop = document.createElement("canvas");
    this.roads = data.roads && { main: unpack(data.roads.main), minor: unpack(data.roads.minor) };
    const [left, bottom, right, top] = data.bounds;
    this.whole = { x: (left + right) / 2, y: (bottom + top) / 2 };
    this.extent = { x: right - left, y: top - bottom };
    this.view = { ...this.whole, zoom: 1 };
  }

  // Fit the drawing into the width that it has, and read the colours of the theme.
  resize() {
    const width = Math.max(this.canvas.clientWidth, 80);
    const most = Math.max(260, Math.min(window.innerHeight * 0.68, 720));
    const height = Math.min(most, Math.max(220, (width * this.extent.y) / this.extent.x));
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.style.height = `${Math.round(height)}px`;
    this.canvas.width = this.backdrop.width = Math.round(width * this.ratio);
    this.canvas.height = this.backdrop.height = Math.round(height * this.ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.scale = [0, 1, 2, 3, 4, 5].map((i) => colour(`scale-${i}`));
    this.theme = { map: colour("map"), road: colour("road"), main: colour("main-road"), chosen: colour("chosen") };
    this.place();
  }

  // Compute where cells are on the canvas, and draw the background.
  place() {
    const { width, height } = this.canvas;
    const room = 2 * MARGIN * this.ratio;
    const fit = Math.min((width - room) / this.extent.x, (height - room) / this.extent.y);
    this.step = fit * this.view.zoom;
    this.left = width / 2 - this.view.x * this.step;
    this.base = height / 2 + this.view.y * this.step;
    const context = this.backdrop.getContext("2d");
    context.fillStyle = this.theme.map;
    context.fillRect(0, 0, width, height);
    if (this.roads) {
      this.drawRoads(context, this.roads.minor, this.theme.road, 1);
      this.drawRoads(context, this.roads.main, this.theme.main, 1.6);
    }
  }

  drawRoads(context, ends, colour, width) {
    const step = (this.step * data.cells) / 65536;
    context.strokeStyle = colour;
    context.lineWidth = width * this.ratio;
    context.beginPath();
    for (let i = 0; i < ends.length; i += 4) {
      context.moveTo(this.left + ends[i] * step, this.base - ends[i + 1] * step);
      context.lineTo(this.left + ends[i + 2] * step, this.base - ends[i + 3] * step);
    }
    context.stroke();
  }

  zoom(factor) {
    this.view.zoom = Math.min(CLOSEST, Math.max(1, this.view.zoom * factor));
    if (this.view.zoom === 1) Object.assign(this.view, this.whole);
    this.place();
  }

  pan(dx, dy) {
    this.view.x -= (dx * this.ratio) / this.step;
    this.view.y += (dy * this.ratio) / this.step;
    this.place();
  }

  // The cell under a point of the page.
  locate(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const y = ((event.clientY - box.top) / box.height) * this.canvas.height;
    return { x: (x - this.left) / this.step, y: (this.base - y) / this.step };
  }

  // Draw one instant of a window; -1 for no chosen bundle.
  draw(shown, instant, colouring, chosen) {
    const { context, step } = this;
    context.globalAlpha = 1;
    context.drawImage(this.backdrop, 0, 0);
    // The more cloaks lie over each other, the fainter is each.
    const covered = shown.sums[instant] / (this.extent.x * this.extent.y);
    const dim = chosen >= 0 ? 0.4 : 1;
    const fill = dim * Math.min(0.25, 0.5 / covered);
    const edge = dim * Math.min(0.9, Math.max(0.35, 1.8 / Math.sqrt(covered)));
    if (fill >= FAINTEST) this.drawCloaks(shown, instant, colouring, fill, 0);
    this.drawCloaks(shown, instant, colouring, edge, Math.round(this.ratio));
    if (chosen >= 0) this.drawJourney(shown, instant, chosen);
    context.globalAlpha = 1;
  }

  // Draw all cloaks, the largest first: their inside, or their edges as lines of whole pixels.
  drawCloaks(shown, instant, colouring, alpha, line) {
    const { context, step, left, base, scale } = this;
    const { width, height } = this.canvas;
    const { cloaks, order } = shown;
    const colours = shown.colours[colouring];
    const from = instant * shown.count;
    context.globalAlpha = alpha;
    context.lineWidth = line;
    let last = -1;
    for (let i = from; i < from + shown.count; i++) {
      const at = from + order[i];
      const x = Math.round(left + cloaks[4 * at] * step);
      const y = Math.round(base - (cloaks[4 * at + 1] + cloaks[4 * at + 3] + 1) * step);
      const w = Math.max(Math.round((cloaks[4 * at + 2] + 1) * step), line + 1);
      const h = Math.max(Math.round((cloaks[4 * at + 3] + 1) * step), line + 1);
      if (x > width || y > height || x + w < 0 || y + h < 0) continue;
      if (colours[at] !== last) context.strokeStyle = context.fillStyle = scale[(last = colours[at])];
      if (line) context.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
      else context.fillRect(x, y, w, h);
    }
  }

  // Draw the cloaks of one bundle at all instants, the path of their centres, and the current cloak.
  drawJourney(shown, instant, chosen) {
    const { context, step, ratio } = this;
    const box = (t) => {
      const at = 4 * (t * shown.count + chosen);
      const width = (shown.cloaks[at + 2] + 1) * step;
      const height = (shown.cloaks[at + 3] + 1) * step;
      const x = this.left + shown.cloaks[at] * step;
      return { x, y: this.base - shown.cloaks[at + 1] * step - height, width, height };
    };
    context.strokeStyle = context.fillStyle = this.theme.chosen;
    context.lineWidth = ratio;
    context.beginPath();
    for (let t = 0; t < shown.length; t++) {
      const { x, y, width, height } = box(t);
      context.globalAlpha = 0.15 + 0.35 / (1 + Math.abs(t - instant));
      context.strokeRect(x, y, width, height);
      context[t ? "lineTo" : "moveTo"](x + width / 2, y + height / 2);
    }
    context.globalAlpha = 0.9;
    context.lineWidth = 2 * ratio;
    context.stroke();
    const now = box(instant);
    context.globalAlpha = 0.2;
    context.fillRect(now.x, now.y, now.width, now.height);
    context.globalAlpha = 1;
    context.lineWidth = 2.5 * ratio;
    context.strokeRect(now.x, now.y, now.width, now.height);
    context.beginPath();
    context.arc(now.x + now.width / 2, now.y + now.height / 2, 4 * ratio, 0, 2 * Math.PI);
    context.fill();
  }
}
