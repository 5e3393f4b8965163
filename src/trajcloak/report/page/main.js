// What is shown, and what the reader does to change it.

const find = (id) => document.getElementById(id);
const [canvas, slider, play] = ["canvas", "time", "play"].map(find);
const drawing = new MapDrawing(canvas);
const STEP = 450;

const state = { shown: null, instant: 0, colouring: "area", chosen: -1, timer: 0, waiting: false };

function redraw() {
  if (state.waiting) return;
  state.waiting = true;
  requestAnimationFrame(() => {
    state.waiting = false;
    drawing.draw(state.shown, state.instant, state.colouring, state.chosen);
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
  canvas.setAttribute("aria-label", `Map of ${state.shown.count} cloaks, ${words}`);
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

// The smallest cloak under a point; where it is chosen already, the next larger one.
function chooseAt({ x, y }) {
  const { shown, instant } = state;
  const base = instant * shown.count;
  const hit = [];
  for (let i = shown.count - 1; i >= 0; i--) {
    const bundle = shown.order[base + i];
    const at = 4 * (base + bundle);
    const right = shown.cloaks[at] + shown.cloaks[at + 2] + 1;
    const top = shown.cloaks[at + 1] + shown.cloaks[at + 3] + 1;
    if (shown.cloaks[at] <= x && x <= right && shown.cloaks[at + 1] <= y && y <= top) hit.push(bundle);
  }
  const next = hit[(hit.indexOf(state.chosen) + 1) % hit.length];
  chooseBundle(next === undefined ? -1 : next);
  announce(next === undefined ? "No bundle here" : describeBundle(shown, next));
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
canvas.addEventListener("pointermove", (event) => {
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
find("colour").addEventListener("change", (event) => {
  state.colouring = event.target.value;
  for (const name of ["area", "users"]) find(`legend-${name}`).hidden = name !== state.colouring;
  redraw();
});

// Light and dark: as the system says, until the reader says otherwise. Paper is light.
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;

function applyTheme(isPrinting = false) {
  const isDark = !isPrinting && (theme ?? (dark.matches ? "dark" : "light")) === "dark";
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  find("theme").setAttribute("aria-pressed", String(isDark));
  drawing.resize();
  drawing.draw(state.shown, state.instant, state.colouring, state.chosen);
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
applyTheme();
