// What is shown, and what the reader does to change it.

const find = (id) => document.getElementById(id);
const [canvas, slider, play] = ["canvas", "time", "play"].map(find);
const drawing = new MapDrawing(canvas);
const STEP = 450;
const views = { density: "the density of users", area: "outlines by size", users: "outlines by users" };

const state = { shown: null, instant: 0, view: "density", chosen: -1, timer: 0, waiting: false };

function redraw() {
  if (state.waiting) return;
  state.waiting = true;
  requestAnimationFrame(() => {
    state.waiting = false;
    drawing.draw(state.shown, state.instant, state.view, state.chosen);
  });
}

function announce(words) {
  find("announcement").textContent = words;
}

function chooseWindow(number) {
  state.shown = readWindow(data.windows[number]);
  slider.max = state.shown.length - 1;
  chooseBundle(-1);
  chooseInstant(0);
}

function chooseInstant(t) {
  state.instant = Math.min(Math.max(t, 0), state.shown.length - 1);
  const words = describeInstant(state.shown.start + state.instant);
  const place = `instant ${state.instant + 1} of ${state.shown.length}`;
  slider.value = state.instant;
  slider.setAttribute("aria-valuetext", `${words}, ${place}`);
  find("moment").textContent = data.moments ? `${words} · ${place}` : place;
  canvas.setAttribute("aria-label", `Map of ${views[state.view]}, ${words}`);
  markInstant(state.instant);
  redraw();
}

function chooseBundle(bundle) {
  state.chosen = bundle;
  showBundle(state.shown, bundle);
  markInstant(state.instant);
  find("clear").disabled = bundle < 0;
  redraw();
}

function stepBundle(by) {
  const { count } = state.shown;
  const from = state.chosen < 0 && by < 0 ? count : state.chosen;
  chooseBundle((((from + by) % count) + count) % count);
  announce(describeBundle(state.shown, state.chosen));
}

function stepTime(by) {
  chooseInstant((state.instant + by + state.shown.length) % state.shown.length);
}

function setPlaying(isPlaying) {
  clearInterval(state.timer);
  state.timer = isPlaying ? setInterval(() => stepTime(1), STEP) : 0;
  play.textContent = isPlaying ? "Pause" : "Play";
  if (!isPlaying) announce(`Paused at ${find("moment").textContent}`);
}

// The bundle of the smallest rectangle under a point; where it is chosen already, the next larger.
function chooseAt({ x, y }) {
  const { shown, instant } = state;
  const { rectangles, rows, count } = shown;
  const hit = new Set();
  for (let i = rows[(instant + 1) * count] - 1; i >= rows[instant * count]; i--) {
    const r = shown.order[i];
    const [left, bottom, width, height] = rectangles.subarray(4 * r, 4 * r + 4);
    if (left <= x && x <= left + width + 1 && bottom <= y && y <= bottom + height + 1) hit.add(shown.owner[r]);
  }
  const found = [...hit];
  const next = found[(found.indexOf(state.chosen) + 1) % found.length];
  chooseBundle(next === undefined ? -1 : next);
  announce(next === undefined ? "No bundle here" : describeBundle(shown, next));
}

// Where the pointer is, and how many users are expected there; without it, the map's corner.
function showPlace(place) {
  const [left, bottom, right, top] = data.bounds;
  find("place").textContent = place
    ? `${describePlace(place.x, place.y)} · ${describeDensity(drawing.findShade(state.shown, state.instant, place))}`
    : `From ${describePlace(left, bottom)} to ${describePlace(right, top)}`;
}

function zoom(factor) {
  drawing.zoom(factor);
  redraw();
}

const keys = {
  ArrowLeft: () => stepTime(-1),
  ArrowRight: () => stepTime(1),
  ArrowUp: () => stepBundle(-1),
  ArrowDown: () => stepBundle(1),
  Escape: () => chooseBundle(-1),
  "+": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: () => zoom(0),
  " ": () => setPlaying(!state.timer),
};

canvas.addEventListener("keydown", (event) => {
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
});

slider.addEventListener("keydown", (event) => {
  if (event.key !== " ") return;
  event.preventDefault();
  keys[" "]();
});

const drag = { from: null, moved: false };
canvas.addEventListener("pointerdown", (event) => {
  drag.from = [event.clientX, event.clientY];
  drag.moved = false;
});
canvas.addEventListener("pointerleave", () => showPlace(null));
canvas.addEventListener("pointermove", (event) => {
  showPlace(drawing.locate(event));
  if (!drag.from) return;
  const [dx, dy] = [event.clientX - drag.from[0], event.clientY - drag.from[1]];
  if (!drag.moved && Math.hypot(dx, dy) < 5) return;
  drag.moved = true;
  if (drawing.view.zoom === 1) return;
  drag.from = [event.clientX, event.clientY];
  drawing.pan(dx, dy);
  redraw();
});
window.addEventListener("pointerup", () => { drag.from = null; });
canvas.addEventListener("click", (event) => { if (!drag.moved) chooseAt(drawing.locate(event)); });

slider.addEventListener("input", () => chooseInstant(Number(slider.value)));
play.addEventListener("click", () => setPlaying(!state.timer));
find("previous").addEventListener("click", () => stepBundle(-1));
find("next").addEventListener("click", () => stepBundle(1));
find("clear").addEventListener("click", () => chooseBundle(-1));
find("closer").addEventListener("click", () => zoom(1.5));
find("farther").addEventListener("click", () => zoom(1 / 1.5));
find("all").addEventListener("click", () => zoom(0));
find("window")?.addEventListener("change", (event) => chooseWindow(Number(event.target.value)));
find("view").addEventListener("change", (event) => {
  state.view = event.target.value;
  for (const name of Object.keys(views)) find(`legend-${name}`).hidden = name !== state.view;
  chooseInstant(state.instant);
});

// Light and dark: as the system says, until the reader says otherwise. Paper is light.
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;

function applyTheme(isPrinting = false) {
  const isDark = !isPrinting && (theme ?? (dark.matches ? "dark" : "light")) === "dark";
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  find("theme").textContent = isDark ? "Light colours" : "Dark colours";
  drawing.resize();
  drawing.draw(state.shown, state.instant, state.view, state.chosen);
}

find("theme").addEventListener("click", () => {
  theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
});
dark.addEventListener("change", () => applyTheme());
matchMedia("print").addEventListener("change", (event) => applyTheme(event.matches));
window.addEventListener("resize", () => { drawing.resize(); redraw(); });

document.documentElement.classList.add("scripted");
find("bundle-note").dataset.words = find("bundle-note").textContent;
chooseWindow(0);
showPlace(null);
applyTheme();
