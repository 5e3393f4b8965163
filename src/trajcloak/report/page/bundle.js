// The panel of the chosen bundle. Everything from the release is set as text, never as markup.

function make(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function describeBundle(shown, bundle) {
  return `Bundle ${shown.ids[bundle].toLocaleString("en")}: ${shown.users[bundle].toLocaleString("en")} users`;
}

function listRequests(shown, bundle, t, cell) {
  const slot = bundle * shown.length + t;
  const list = make("ul", null, cell);
  for (let i = shown.first[slot]; i < shown.first[slot + 1]; i++) {
    const item = make("li", null, list);
    const kind = data.kinds[shown.codes[i]];
    kind.forEach((value, attribute) => {
      if (attribute) item.append(" · ");
      make("bdi", value, item).title = data.attributes[attribute];
    });
  }
  const more = shown.totals[slot] - (shown.first[slot + 1] - shown.first[slot]);
  if (more) make("li", `and ${more.toLocaleString("en")} more`, list).className = "more";
  if (!shown.totals[slot]) make("li", "none", list).className = "more";
}

function showBundle(shown, bundle) {
  const title = document.getElementById("bundle-title");
  const note = document.getElementById("bundle-note");
  const list = document.getElementById("bundle-list");
  list.replaceChildren();
  if (bundle < 0) {
    title.textContent = "No bundle chosen";
    note.textContent = note.dataset.words;
    return;
  }
  title.textContent = describeBundle(shown, bundle);
  const total = shown.totals.subarray(bundle * shown.length, (bundle + 1) * shown.length)
    .reduce((sum, number) => sum + number, 0);
  note.textContent =
    `Each of its ${total.toLocaleString("en")} requests can have been sent by any of these users.`;
  const table = make("table", null, list);
  const head = make("tr", null, make("thead", null, table));
  const names = data.attributes.length ? data.attributes.join(" · ") : "requests";
  const size = `${data.hasParts ? "all parts" : "cloak"} (${data.metres ? "km" : "units"})`;
  const headings = ["time", ...(data.hasParts ? ["parts"] : []), size, names];
  for (const name of headings) make("th", name, head).scope = "col";
  const body = make("tbody", null, table);
  for (let t = 0; t < shown.length; t++) {
    const row = make("tr", null, body);
    const words = describeInstant(shown.start + t);
    make("th", data.moments ? words.slice(11) : words, row).scope = "row";
    const at = t * shown.count + bundle;
    if (data.hasParts) make("td", String(shown.rows[at + 1] - shown.rows[at]), row);
    const { left, bottom, right, top } = boundBundle(shown, t, bundle);
    make("td", describeSides(right - left, top - bottom), row).className = "size";
    listRequests(shown, bundle, t, make("td", null, row));
  }
}

function markInstant(t) {
  const list = document.getElementById("bundle-list");
  const rows = list.querySelectorAll("tbody tr");
  const before = list.querySelector("tr[aria-current]");
  if (before) before.removeAttribute("aria-current");
  if (!rows[t]) return;
  rows[t].setAttribute("aria-current", "time");
  list.scrollTop = rows[t].offsetTop - list.clientHeight / 3;
}
