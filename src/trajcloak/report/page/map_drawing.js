// The map on its canvas: what part of it is seen, and how density and rectangles are drawn.

const MARGIN = 12;
const CLOSEST = 32;
const FAINTEST = 0.04; // fainter fills add up to wrong colours, since canvases round

class MapDrawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    // Under the density: what would hide its colours. Over it: main roads, and outlines of the land.
    [this.under, this.over] = [0, 1].map(() => document.createElement("canvas"));
    this.surface = document.createElement("canvas");
    this.surface.width = data.density.columns;
    this.surface.height = data.density.rows;
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
    this.canvas.width = this.under.width = this.over.width = Math.round(width * this.ratio);
    this.canvas.height = this.under.height = this.over.height = Math.round(height * this.ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.scale = [0, 1, 2, 3, 4, 5].map((i) => colour(`scale-${i}`));
    this.shades = mixShades([0, 1, 2, 3, 4, 5].map((i) => colour(`density-${i}`)));
    this.theme = {
      map: colour("map"), road: colour("road"), main: colour("main-road"), chosen: colour("chosen"),
      ink: colour("ink"), paper: colour("paper"),
    };
    this.place();
  }

  // Compute where cells are on the canvas, and draw streets and outlines of the land.
  place() {
    const { width, height } = this.canvas;
    const room = 2 * MARGIN * this.ratio;
    const fit = Math.min((width - room) / this.extent.x, (height - room) / this.extent.y);
    this.step = fit * this.view.zoom;
    this.left = width / 2 - this.view.x * this.step;
    this.base = height / 2 + this.view.y * this.step;
    const under = this.under.getContext("2d");
    under.fillStyle = this.theme.map;
    under.fillRect(0, 0, width, height);
    if (this.roads) {
      this.drawRoads(under, this.roads.minor, this.theme.road, 1);
      const over = this.over.getContext("2d");
      over.clearRect(0, 0, width, height);
      this.drawRoads(over, this.roads.main, this.theme.main, 1.6);
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

  // Draw one instant of a window: its density, or outlines; -1 for no chosen bundle.
  draw(shown, instant, view, chosen) {
    const { context } = this;
    context.globalAlpha = 1;
    context.drawImage(this.under, 0, 0);
    if (view === "density") this.drawDensity(shown, instant);
    context.drawImage(this.over, 0, 0);
    if (view !== "density") this.drawOutlines(shown, instant, view, chosen);
    if (chosen >= 0) this.drawJourney(shown, instant, chosen);
    context.globalAlpha = 1;
    this.drawScaleBar();
  }

  // Draw a square of even colour for each square of the density's grid.
  drawDensity(shown, instant) {
    const { columns, rows, low, side } = data.density;
    const image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const from = instant * rows * columns;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        // The first row of the grid is the lowest, that of an image the uppermost.
        pixels[(rows - 1 - row) * columns + column] = this.shades[shown.density[from + row * columns + column]];
      }
    }
    this.surface.getContext("2d").putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(
      this.surface, this.left + low[0] * this.step, this.base - (low[1] + rows * side) * this.step,
      columns * side * this.step, rows * side * this.step,
    );
  }

  // The shade of the density at a place; none beyond the grid.
  findShade(shown, instant, { x, y }) {
    const { columns, rows, low, side } = data.density;
    const column = Math.floor((x - low[0]) / side);
    const row = Math.floor((y - low[1]) / side);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return 0;
    return shown.density[(instant * rows + row) * columns + column];
  }

  // A bar of a round length, with its length above.
  drawScaleBar() {
    const { context, ratio } = this;
    const perPixel = data.cell / this.step;
    const most = 0.22 * this.canvas.width * perPixel;
    const power = 10 ** Math.floor(Math.log10(most));
    const length = [5, 2, 1].find((f) => f * power <= most) * power;
    const inKilometres = data.metres && length >= 1000;
    const words = `${(inKilometres ? length / 1000 : length).toLocaleString("en")} ${inKilometres ? "km" : data.metres ? "m" : "units"}`;
    const [x, y, width] = [14 * ratio, this.canvas.height - 14 * ratio, length / perPixel];
    context.font = `${12 * ratio}px system-ui, sans-serif`;
    context.fillStyle = this.theme.paper;
    context.globalAlpha = 0.85;
    context.fillRect(x - 6 * ratio, y - 24 * ratio, Math.max(width, context.measureText(words).width) + 12 * ratio, 30 * ratio);
    context.globalAlpha = 1;
    context.fillStyle = context.strokeStyle = this.theme.ink;
    context.lineWidth = 1.5 * ratio;
    context.fillText(words, x, y - 9 * ratio);
    context.beginPath();
    context.moveTo(x, y - 5 * ratio);
    context.lineTo(x, y);
    context.lineTo(x + width, y);
    context.lineTo(x + width, y - 5 * ratio);
    context.stroke();
  }

  drawOutlines(shown, instant, colouring, chosen) {
    // The more cloaks lie over each other, the fainter is each.
    const covered = shown.sums[instant] / (this.extent.x * this.extent.y);
    const dim = chosen >= 0 ? 0.4 : 1;
    const fill = dim * Math.min(0.25, 0.5 / covered);
    const edge = dim * Math.min(0.9, Math.max(0.35, 1.8 / Math.sqrt(covered)));
    if (fill >= FAINTEST) this.drawRectangles(shown, instant, colouring, fill, 0);
    this.drawRectangles(shown, instant, colouring, edge, Math.round(this.ratio));
  }

  // Draw all rectangles, the largest first: their inside, or their edges as lines of whole pixels.
  drawRectangles(shown, instant, colouring, alpha, line) {
    const { context, step, left, base, scale } = this;
    const { width, height } = this.canvas;
    const { rectangles, order, rows, count } = shown;
    const colours = shown.colours[colouring];
    context.globalAlpha = alpha;
    context.lineWidth = line;
    let last = -1;
    for (let i = rows[instant * count]; i < rows[(instant + 1) * count]; i++) {
      const at = order[i];
      const x = Math.round(left + rectangles[4 * at] * step);
      const y = Math.round(base - (rectangles[4 * at + 1] + rectangles[4 * at + 3] + 1) * step);
      const w = Math.max(Math.round((rectangles[4 * at + 2] + 1) * step), line + 1);
      const h = Math.max(Math.round((rectangles[4 * at + 3] + 1) * step), line + 1);
      if (x > width || y > height || x + w < 0 || y + h < 0) continue;
      if (colours[at] !== last) context.strokeStyle = context.fillStyle = scale[(last = colours[at])];
      if (line) context.strokeRect(x + line / 2, y + line / 2, w - line, h - line);
      else context.fillRect(x, y, w, h);
    }
  }

  // Draw the rectangles of one bundle, and the path of the centre of the box around them.
  drawJourney(shown, instant, chosen) {
    const { context, step, ratio } = this;
    const centres = Array.from({ length: shown.length }, (_, t) => {
      const { left, bottom, right, top } = boundBundle(shown, t, chosen);
      return [this.left + ((left + right) / 2) * step, this.base - ((bottom + top) / 2) * step];
    });
    context.strokeStyle = context.fillStyle = this.theme.chosen;
    context.globalAlpha = 0.9;
    context.lineWidth = 2 * ratio;
    context.beginPath();
    centres.forEach((centre, t) => context[t ? "lineTo" : "moveTo"](...centre));
    context.stroke();
    const from = instant * shown.count + chosen;
    for (let r = shown.rows[from]; r < shown.rows[from + 1]; r++) {
      const [left, bottom, width, height] = shown.rectangles.subarray(4 * r, 4 * r + 4);
      const placed = [
        this.left + left * step, this.base - (bottom + height + 1) * step, (width + 1) * step, (height + 1) * step,
      ];
      context.globalAlpha = 0.25;
      context.fillRect(...placed);
      context.globalAlpha = 1;
      context.lineWidth = 2.5 * ratio;
      context.strokeRect(...placed);
    }
    context.beginPath();
    context.arc(...centres[instant], 4 * ratio, 0, 2 * Math.PI);
    context.fill();
  }
}

// The colours of all shades, as the numbers that pixels are: between six colours, the first of
// which comes out of nothing.
function mixShades(colours) {
  const stops = colours.map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  return Uint32Array.from({ length: 256 }, (_, shade) => {
    const place = Math.max((shade * 6) / 255 - 1, 0);
    const at = Math.min(Math.floor(place), 4);
    const [red, green, blue] = stops[at].map((c, i) => Math.round(c + (stops[at + 1][i] - c) * (place - at)));
    const alpha = Math.round(Math.min((shade * 6) / 255, 1) * 235);
    // Low bytes first, as on every machine that runs a browser.
    return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}
