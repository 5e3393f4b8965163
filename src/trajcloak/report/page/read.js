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

// Cloaks are stored instant by instant, four numbers each: left, bottom, width - 1, height - 1.
function readWindow(packed) {
  const users = unpack(packed.users);
  const cloaks = unpack(packed.cloaks);
  const count = users.length;
  const length = packed.length;
  const colours = { area: new Uint8Array(count * length), users: new Uint8Array(count * length) };
  const order = new Uint32Array(count * length);
  const areas = new Float64Array(count);
  const sums = new Float64Array(length);
  for (let t = 0; t < length; t++) {
    for (let b = 0; b < count; b++) {
      const at = t * count + b;
      areas[b] = (cloaks[4 * at + 2] + 1) * (cloaks[4 * at + 3] + 1);
      sums[t] += areas[b];
      colours.area[at] = data.areaColours[classify(areas[b], data.areaBreaks)];
      colours.users[at] = data.sizeColours[classify(users[b], data.sizeBreaks)];
    }
    const largestFirst = Uint32Array.from({ length: count }, (_, b) => b);
    largestFirst.sort((a, b) => areas[b] - areas[a] || a - b);
    order.set(largestFirst, t * count);
  }
  const totals = unpack(packed.totals);
  const first = new Uint32Array(totals.length + 1);
  for (let i = 0; i < totals.length; i++) {
    first[i + 1] = first[i] + Math.min(totals[i], data.mostListed);
  }
  return {
    start: packed.start, length, count, users, cloaks, colours, order, totals, first,
    ids: unpack(packed.ids), codes: unpack(packed.codes), sums,
  };
}

function describeInstant(instant) {
  if (!data.moments) return `instant ${instant}`;
  const [origin, every] = data.moments;
  const moment = new Date((origin + instant * every) / 1000).toISOString();
  const time = moment.slice(11, 23).replace(/\.?0+$/, (zeros) => (zeros[0] === "." ? "" : zeros));
  return `${moment.slice(0, 10)} ${time.replace(/^(\d\d:\d\d):00$/, "$1")}${data.zone ? " UTC" : ""}`;
}

// Width and height in kilometres, or in the release's own units.
function describeSides(width, height) {
  const show = (cells) =>
    ((cells * data.cell) / (data.metres ? 1000 : 1)).toLocaleString("en", { maximumSignificantDigits: 3 });
  return `${show(width)} × ${show(height)}`;
}
