// What the page holds as data, turned into arrays.

const data = JSON.parse(document.getElementById("data").textContent);

function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.bytes === 1) return bytes;
  return packed.bytes === 2 ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
}

// The class of a value: the number of breaks that are not larger.
function classify(value, breaks) {
  let i = 0;
  while (i < breaks.length && breaks[i] <= value) i++;
  return i;
}

// Rectangles are stored by instant, bundle and part, four numbers each: left, bottom, width - 1,
// height - 1. Those of bundle b at instant t are rows[t * count + b] up to the next number there.
function readWindow(packed) {
  const users = unpack(packed.users);
  const rectangles = unpack(packed.rectangles);
  const counts = unpack(packed.counts);
  const count = users.length;
  const length = packed.length;
  const rows = accumulate(counts);
  const total = rows[counts.length];
  const owner = new Uint32Array(total);
  const colours = { area: new Uint8Array(total), users: new Uint8Array(total) };
  const order = new Uint32Array(total);
  const areas = new Float64Array(total);
  const sums = new Float64Array(length);
  for (let t = 0; t < length; t++) {
    for (let b = 0; b < count; b++) {
      const size = data.sizeColours[classify(users[b], data.sizeBreaks)];
      for (let r = rows[t * count + b]; r < rows[t * count + b + 1]; r++) {
        owner[r] = b;
        areas[r] = (rectangles[4 * r + 2] + 1) * (rectangles[4 * r + 3] + 1);
        sums[t] += areas[r];
        colours.area[r] = data.areaColours[classify(areas[r], data.areaBreaks)];
        colours.users[r] = size;
      }
    }
    const from = rows[t * count];
    const largestFirst = Uint32Array.from({ length: rows[(t + 1) * count] - from }, (_, i) => from + i);
    largestFirst.sort((a, b) => areas[b] - areas[a] || a - b);
    order.set(largestFirst, from);
  }
  const totals = unpack(packed.totals);
  return {
    start: packed.start, length, count, users, rectangles, rows, owner, colours, order, totals, sums,
    first: accumulate(totals.map((number) => Math.min(number, data.mostListed))),
    ids: unpack(packed.ids), codes: unpack(packed.codes), density: unpack(packed.density),
  };
}

// Where the items of each of some sets start, if they stand one after another.
function accumulate(counts) {
  const first = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) first[i + 1] = first[i] + counts[i];
  return first;
}

// The box around all rectangles of a bundle, in cells.
function boundBundle(shown, t, bundle) {
  const box = { left: Infinity, bottom: Infinity, right: 0, top: 0 };
  for (let r = shown.rows[t * shown.count + bundle]; r < shown.rows[t * shown.count + bundle + 1]; r++) {
    const [x, y, width, height] = shown.rectangles.subarray(4 * r, 4 * r + 4);
    box.left = Math.min(box.left, x);
    box.bottom = Math.min(box.bottom, y);
    box.right = Math.max(box.right, x + width + 1);
    box.top = Math.max(box.top, y + height + 1);
  }
  return box;
}

function describeInstant(instant) {
  if (!data.moments) return `instant ${instant}`;
  const [origin, every] = data.moments;
  const moment = new Date((origin + instant * every) / 1000).toISOString();
  const time = moment.slice(11, 23).replace(/\.?0+$/, (zeros) => (zeros[0] === "." ? "" : zeros));
  return `${moment.slice(0, 10)} ${time.replace(/^(\d\d:\d\d):00$/, "$1")}${data.zone ? " UTC" : ""}`;
}

// Expected users in a square of the density's grid, from its shade.
function describeDensity(shade) {
  if (!shade) return "nobody expected here";
  const users = data.density.greatest * (shade / 255) ** 2;
  const words = users.toLocaleString("en", { maximumSignificantDigits: 2 });
  return `${shade === 255 ? "at least" : "about"} ${words} users expected in this square`;
}

// A place, given in cells, in kilometres or units of the release's coordinates.
function describePlace(x, y) {
  const show = (cells, corner) =>
    ((corner + cells * data.cell) / (data.metres ? 1000 : 1)).toLocaleString("en", {
      maximumFractionDigits: data.metres ? 2 : 1,
      signDisplay: "negative", // no minus for what is rounded to zero
    });
  const unit = data.metres ? " km" : "";
  return `x ${show(x, data.corner[0])}${unit}, y ${show(y, data.corner[1])}${unit}`;
}

// Width and height in kilometres, or in the release's own units.
function describeSides(width, height) {
  const show = (cells) =>
    ((cells * data.cell) / (data.metres ? 1000 : 1)).toLocaleString("en", { maximumSignificantDigits: 3 });
  return `${show(width)} × ${show(height)}`;
}
