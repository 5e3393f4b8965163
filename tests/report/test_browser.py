"""The page in a real browser: opened from a file, with no network, by mouse and by keyboard."""

import json
import re
import statistics
from itertools import combinations, pairwise

import pytest
from playwright.sync_api import expect

from report.conftest import HOSTILE, publish
from trajcloak.query import open_published
from trajcloak.report import write_report_page

MOST_BYTES = 15_000_000
MOST_TIMES = 8
"""How many times the work for plain squares a frame may take; it takes about twice as much."""

GUARD = 60_000
"""Milliseconds after which what should have happened never will."""

expect.set_options(timeout=GUARD)
MEASURE = """
window.work = [];
window.squares = [];
const next = window.requestAnimationFrame.bind(window);
const other = document.createElement("canvas").getContext("2d");
const measure = (context, draw) => {
  const start = performance.now();
  draw();
  context.getImageData(0, 0, 1, 1);
  return performance.now() - start;
};
window.requestAnimationFrame = (draw) => next((time) => {
  const canvas = document.getElementById("canvas");
  [other.canvas.width, other.canvas.height] = [canvas.width, canvas.height];
  window.work.push(measure(canvas.getContext("2d"), () => draw(time)));
  window.squares.push(measure(other, () => {
    for (let i = 0; i < NUM_SQUARES; i++) other.strokeRect((i * 7) % 900, (i * 11) % 500, 30, 30);
  }));
});
"""
"""Measures the work of each frame, until a pixel can be read: nothing is left for later.

So is the work of drawing as many plain squares, which a busy machine slows down as much.
"""


@pytest.fixture
def open_page(browser):
    """Open a page from its file; a request for anything else, or an error, fails the test."""
    contexts, trouble = [], []

    def open_page(path, **settings):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        own = path.as_uri()
        page.on("request", lambda r: trouble.append(r.url) if r.url.split("#")[0] != own else None)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.goto(own)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture
def public(open_page, pages):
    return open_page(pages["public"])


def picture(page):
    """The pixels of the map, after the next frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator("#canvas").evaluate("(canvas) => canvas.toDataURL()")


def press(page, *keys):
    page.locator("#canvas").focus()
    for key in keys:
        page.keyboard.press(key)


def test_opens_from_a_file(public):
    assert public.locator("h1").inner_text().startswith("By its own account, every published")
    colours = public.locator("#canvas").evaluate(
        """(canvas) => {
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )
    assert colours > 5, "something is drawn"


def test_the_policy_of_the_page_forbids_everything_else(browser, pages):
    page = browser.new_page()
    page.goto(pages["public"].as_uri())
    stopped = page.evaluate(
        """(guard) => new Promise((done) => {
          const found = [];
          document.addEventListener("securitypolicyviolation", (event) => {
            if (found.push(event.effectiveDirective) === 2) done(found.sort());
          });
          setTimeout(() => done(found.sort()), guard);
          const script = document.createElement("script");
          script.textContent = "window.evil = true";
          document.body.append(script);
          const image = new Image();
          image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
        })""",
        GUARD,
    )
    assert stopped == ["img-src", "script-src-elem"]
    assert page.evaluate("window.evil") is None
    page.close()


def test_slider_and_keys_move_time(public):
    slider, moment = public.locator("#time"), public.locator("#moment")
    assert moment.inner_text() == "2024-05-06 08:00 · instant 1 of 4"
    first = picture(public)
    slider.focus()
    public.keyboard.press("ArrowRight")
    assert moment.inner_text() == "2024-05-06 08:01 · instant 2 of 4"
    assert slider.get_attribute("aria-valuetext") == "2024-05-06 08:01, instant 2 of 4"
    assert picture(public) != first
    press(public, "ArrowLeft")
    assert picture(public) == first
    press(public, "ArrowLeft")
    assert slider.input_value() == "3", "time goes round"


def test_play(public):
    button, slider = public.locator("#play"), public.locator("#time")
    button.click()
    assert button.inner_text() == "Pause"
    expect(slider).to_have_value("2")
    button.click()
    assert button.inner_text() == "Play"
    assert public.locator("#announcement").inner_text().startswith("Paused at 2024-05-06 08:0")
    slider.focus()
    public.keyboard.press("Space")
    assert button.inner_text() == "Pause"
    press(public, "Space")
    assert button.inner_text() == "Play"


def find_overlap(page, window):
    """A point of the map, in pixels, inside two cloaks of the first instant."""
    x_min, y_min, x_max, y_max = window.cloaks[:, :, 0]
    corners = [*window.cloaks[:2].min(axis=(1, 2)), *window.cloaks[2:].max(axis=(1, 2))]
    box = page.locator("#canvas").bounding_box()
    room = box["width"] - 26, box["height"] - 26
    step = min(room[0] / (corners[2] - corners[0]), room[1] / (corners[3] - corners[1]))
    for a, b in combinations(range(len(window.users)), 2):
        left, right = max(x_min[a], x_min[b]), min(x_max[a], x_max[b])
        bottom, top = max(y_min[a], y_min[b]), min(y_max[a], y_max[b])
        if right - left > 4 / step and top - bottom > 4 / step:
            x = (left + right) / 2 - (corners[0] + corners[2]) / 2
            y = (bottom + top) / 2 - (corners[1] + corners[3]) / 2
            return {"x": box["width"] / 2 + x * step, "y": box["height"] / 2 - y * step}
    raise AssertionError("no two cloaks overlap")


def test_click_shows_a_journey(public, made):
    before = picture(public)
    middle = find_overlap(public, open_published(made / "release").windows[0])
    public.locator("#canvas").click(position=middle)
    title = public.locator("#bundle-title").inner_text()
    number, users = re.fullmatch(r"Bundle (\d+): (\d+) users", title).groups()
    assert public.locator("#announcement").inner_text() == title
    bundles = open_published(made / "release").windows[0]
    assert bundles.users[int(number)] == int(users)
    assert public.locator("#bundle-list tbody tr").count() == 4
    assert public.locator("tr[aria-current='time'] th").inner_text() == "08:00"
    assert picture(public) != before
    public.locator("#canvas").click(position=middle)
    assert public.locator("#bundle-title").inner_text() != title, "the next larger cloak there"
    public.locator("#clear").click()
    assert public.locator("#bundle-title").inner_text() == "No bundle chosen"
    assert picture(public) == before


def test_the_pointer_tells_place_and_density(public):
    place = public.locator("#place")
    corners = place.inner_text()
    assert re.fullmatch(r"From x [-\d,.]+, y [-\d,.]+ to x [-\d,.]+, y [-\d,.]+", corners)
    public.locator("#canvas").hover()
    assert re.fullmatch(
        r"x [-\d,.]+, y [-\d,.]+ · (nobody|(about|at least) [\d.,]+ users) expected .*",
        place.inner_text(),
    )
    public.locator("h1").hover()
    assert place.inner_text() == corners


def test_a_bundle_in_parts(open_page, tmp_path):
    publish(tmp_path, 60, 4, 12, ["fuel", "bus"], parts=3)
    write_report_page(tmp_path / "release", tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    press(page, "ArrowDown")
    window = open_published(tmp_path / "release").windows[0]
    assert window.counts.max() > 1
    parts = page.locator("#bundle-list tbody tr td:nth-child(2)").all_text_contents()
    assert parts == [str(count) for count in window.counts[0].tolist()]


def test_keys_choose_bundles(public):
    title = public.locator("#bundle-title")
    press(public, "ArrowDown")
    assert title.inner_text().startswith("Bundle 0: ")
    press(public, "ArrowDown")
    assert title.inner_text().startswith("Bundle 1: ")
    press(public, "ArrowUp", "ArrowUp")
    count = json.loads(public.locator("#data").text_content())["windows"][1]["ids"]
    assert count
    assert not title.inner_text().startswith(("Bundle 0: ", "Bundle 1: ")), "they go round"
    press(public, "Escape")
    assert title.inner_text() == "No bundle chosen"


def test_zoom_and_drag(public):
    whole = picture(public)
    public.locator("#closer").click()
    closer = picture(public)
    assert closer != whole
    public.locator("#canvas").scroll_into_view_if_needed()
    box = public.locator("#canvas").bounding_box()
    public.mouse.move(box["x"] + 200, box["y"] + 200)
    public.mouse.down()
    public.mouse.move(box["x"] + 260, box["y"] + 180, steps=4)
    public.mouse.up()
    moved = picture(public)
    assert moved not in (whole, closer)
    public.mouse.move(box["x"] + 100, box["y"] + 100)
    assert picture(public) == moved, "the map was let go"
    assert public.locator("#bundle-title").inner_text() == "No bundle chosen", "a drag is no click"
    press(public, "0")
    assert picture(public) == whole


def test_windows_and_colours(public):
    assert public.locator("#window option").count() == 2
    seen = set()
    for view in ("density", "area", "users"):
        public.locator("#view").select_option(view)
        seen.add(picture(public))
        shown = [
            name for name in ("density", "area", "users")
            if public.locator(f"#legend-{name}").is_visible()
        ]  # fmt: skip
        assert shown == [view]
    assert len(seen) == 3
    public.locator("#window").select_option("1")
    assert public.locator("#moment").inner_text() == "2024-05-06 08:04 · instant 1 of 4"


def test_requests_are_shown_as_text(public, made):
    """Every request of the release, whatever it holds, and nothing of it runs."""
    shown = set()
    for window in ("0", "1"):
        public.locator("#window").select_option(window)
        for _ in range(len(open_published(made / "release").windows[int(window)].users)):
            public.locator("#next").click()
            shown |= set(public.locator("#bundle-list li bdi").all_text_contents())
    assert shown == {
        *HOSTILE[:-2],
        "pay\\u202egnp.exe",
        "line\\u2028separator\\u2029end\\u0007",
    }
    assert public.locator("#bundle-list script, #bundle-list img, #bundle-list svg").count() == 0
    assert public.locator("#requests bdi").all_text_contents()


def colours_of(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark(open_page, pages):
    light = open_page(pages["public"], color_scheme="light")
    dark = open_page(pages["public"], color_scheme="dark")
    assert colours_of(light) != colours_of(dark)
    assert picture(light) != picture(dark)
    button = light.locator("#theme")
    assert button.inner_text() == "Dark colours", "what it will do"
    assert dark.locator("#theme").inner_text() == "Light colours"
    button.click()
    assert button.inner_text() == "Light colours"
    assert colours_of(light) == colours_of(dark)
    button.click()
    assert colours_of(light) != colours_of(dark)
    light.emulate_media(color_scheme="dark")
    assert colours_of(light) != colours_of(dark), "the reader has decided"


def test_paper_is_light_and_has_no_controls(open_page, pages):
    page = open_page(pages["private"], color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert not page.locator(".controls").is_visible()
    assert not page.locator("nav").is_visible()
    assert page.locator("#canvas").is_visible()
    assert page.locator("#moment").is_visible()
    assert page.locator(".private").is_visible()
    assert page.locator(".sign").first.is_visible()
    page.emulate_media(media="screen")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("kind", ["public", "private"])
@pytest.mark.parametrize("width", [320, 360, 390, 768, 1600])
def test_no_page_is_wider_than_its_screen(open_page, pages, kind, width):
    page = open_page(pages[kind])
    page.set_viewport_size({"width": width, "height": 740})
    press(page, "ArrowDown")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("kind", ["public", "private"])
def test_nothing_is_cut_on_a_phone(open_page, pages, kind):
    """No part that the reader would have to move sideways, and no text beyond its box."""
    page = open_page(pages[kind])
    page.set_viewport_size({"width": 390, "height": 800})
    press(page, "ArrowDown")
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    cut = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((e) => e.checkVisibility() && !e.closest(".unseen, .skip, svg, thead"))
          .filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1)
          .map((e) => `${e.tagName}.${e.className}#${e.id}: ${e.scrollWidth} > ${e.clientWidth}`)"""
    )
    assert cut == []


@pytest.mark.parametrize("width", [320, 390, 900])
def test_no_number_is_broken(open_page, pages, width):
    """No digits of one number, nor a number and its unit, are in two lines."""
    page = open_page(pages["private"])
    page.set_viewport_size({"width": width, "height": 800})
    broken = page.evaluate(
        """() => {
          const found = [];
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const range = document.createRange();
          while (walker.nextNode()) {
            const node = walker.currentNode;
            const e = node.parentElement;
            if (!e.checkVisibility() || e.closest("script, svg, bdi, code, option")) continue;
            const numbers = /\\d[\\d.,]*\\d|\\d[\\u00a0×]+\\w+/g;
            for (const match of node.textContent.matchAll(numbers)) {
              range.setStart(node, match.index);
              range.setEnd(node, match.index + match[0].length);
              const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
              if (tops.size > 1) found.push(match[0]);
            }
          }
          return found;
        }"""
    )
    assert broken == []


def test_tab_reaches_every_control_and_shows_it(public):
    """In the order of the page; each has an outline when it has the focus."""
    reached = []
    for _ in range(60):
        public.keyboard.press("Tab")
        name, outline = public.evaluate(
            "(() => { const e = document.activeElement;"
            " return [e.id || e.textContent, getComputedStyle(e).outlineStyle]; })()"
        )
        if name in reached:
            break
        reached.append(name)
        assert outline != "none", name
    controls = ["theme", "play", "time", "window", "view", "previous", "next"]
    controls += ["closer", "farther", "all", "canvas"]
    assert [name for name in reached if name in controls] == controls
    assert reached[0] == "Skip to the content"


def test_the_toolbar_has_two_whole_lines(public):
    """The list of windows shows all of its words, and no group of buttons stands alone."""
    tops = public.evaluate(
        """(ids) => ids.map((id) => {
          const box = document.getElementById(id).getBoundingClientRect();
          return Math.round((box.top + box.bottom) / 2);
        })""",
        ["play", "time", "window", "view", "previous", "next", "closer", "all"],
    )
    assert len(set(tops[:3])) == len(set(tops[3:])) == 1, tops
    assert tops[3] > tops[2]
    for width in (1280, 390):
        public.set_viewport_size({"width": width, "height": 800})
        shown, whole = public.evaluate(
            """() => {
              const list = document.getElementById("window");
              const free = list.cloneNode(true);
              free.removeAttribute("id");
              free.style.cssText = "position: absolute; max-width: none";
              document.body.append(free);
              const widths = [list, free].map((e) => e.getBoundingClientRect().width);
              free.remove();
              return widths;
            }"""
        )
        assert shown >= whole - 1, width


@pytest.mark.parametrize("width", [390, 900])
def test_windows_with_a_zone_and_options_are_whole(open_page, pages, width):
    """The longest name of a window fits on a phone, and no option breaks after its hyphens."""
    page = open_page(pages["private"])
    page.set_viewport_size({"width": width, "height": 800})
    free, taken = page.evaluate(
        """() => {
          const list = document.getElementById("window");
          list.options[0].text = list.options[0].text.replace("1 of 2:", "12 of 288:") + " UTC";
          const shown = list.getBoundingClientRect();
          list.style.cssText = "position: absolute; max-width: none";
          const taken = list.getBoundingClientRect().width;
          list.style.cssText = "";
          return [shown.width, taken];
        }"""
    )
    assert free >= taken - 1
    lines = page.evaluate(
        """() => [...document.querySelectorAll(".option")].filter((e) => e.checkVisibility())
          .map((e) => [e.textContent, e.getClientRects().length])"""
    )
    assert {"--log", "--link-safe"} <= {name for name, _ in lines}
    assert all(number == 1 for _, number in lines)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_one_window_at_a_time(public, open_page, plain, tmp_path):
    """The words above the map are true of what is drawn."""
    words = public.locator("#map > .note").inner_text()
    assert re.match(
        r"The map shows (\d+) of \1 bundles, in 2 of 2 windows, one window at a time", words
    )
    write_report_page(plain / "release", tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert page.locator("#window").count() == 0
    words = page.locator("#map > .note").inner_text()
    assert re.match(r"The map shows (\d+) of \1 bundles, in 1 of 1 window\.", words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["public", "private"])
def test_what_was_allowed_is_amber(open_page, pages, kind, scheme):
    page = open_page(pages[kind], color_scheme=scheme)
    colour = "(e) => getComputedStyle(e).backgroundColor"
    wait, good = page.evaluate(
        """() => ["wait", "good"].map((name) => {
          const e = document.createElement("p");
          document.body.append(e);
          e.style.background = `var(--${name}-paper)`;
          const found = getComputedStyle(e).backgroundColor;
          e.remove();
          return found;
        })"""
    )
    assert page.locator(".status").evaluate(colour) == wait != good


@pytest.mark.parametrize("kind", ["public", "private"])
def test_the_first_page_on_paper_is_what_is_signed(open_page, pages, kind):
    """Verdict, hashes and lines to sign, however many rare values follow; the map comes later."""
    page = open_page(pages[kind])
    page.emulate_media(media="print")
    # The width and the height of A4 less the margins, in pixels of 1/96 inch.
    page.set_viewport_size({"width": 688, "height": 1001})
    assert page.locator(".top .digests code").count() == {"public": 3, "private": 5}[kind]
    assert page.locator(".top .sign").count() == 2
    assert page.locator(".top").get_by_text("What must somebody look at?").is_visible()
    last = page.locator(".top .sign").last
    box = last.bounding_box()
    assert last.is_visible()
    assert box["y"] + box["height"] <= 1001
    assert page.locator("#map").evaluate("(e) => getComputedStyle(e).breakBefore") == "page"


@pytest.mark.parametrize("kind", ["public", "private"])
def test_nothing_on_paper_asks_for_a_click(open_page, pages, kind):
    page = open_page(pages[kind])
    page.emulate_media(media="print")
    words = page.locator("body").inner_text()
    assert not re.search(r"\b(click|Choose a place|More\.)", words, re.IGNORECASE)
    assert page.locator("#legend-density").is_visible()


def test_everything_has_a_name(open_page, pages):
    """What a screen reader says of controls and pictures; headings go down step by step."""
    page = open_page(pages["private"])
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, svg, a")]
          .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
            || e.labels?.[0]?.textContent.trim()))
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    targets = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby], [aria-describedby]')].flatMap((e) =>"
        " [e.getAttribute('aria-labelledby'), e.getAttribute('aria-describedby')]).filter(Boolean)"
    )
    assert set(targets) <= set(ids)
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("th:not([scope])").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["public", "private"])
def test_text_can_be_read(open_page, pages, kind, scheme):
    """Contrast of at least 4.5 : 1, as WCAG 2 asks for, of every text on what is behind it."""
    page = open_page(pages[kind], color_scheme=scheme)
    press(page, "ArrowDown")
    worst = page.evaluate(
        """() => {
          const read = (text) => text.match(/[\\d.]+/g).map(Number);
          const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = (e) => {
            for (; e; e = e.parentElement) {
              const colour = read(getComputedStyle(e).backgroundColor);
              if (colour.length === 3 || colour[3] === 1) return colour;
            }
            return [255, 255, 255];
          };
          const found = [];
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const e = walker.currentNode.parentElement;
            if (!walker.currentNode.textContent.trim() || !e.checkVisibility()) continue;
            if (e.closest("script, style, title, option")) continue;
            const style = getComputedStyle(e);
            const [a, b] = [e.closest("svg") ? style.fill : style.color, null];
            const pair = [light(read(a)), light(behind(e))].sort((x, y) => y - x);
            found.push([(pair[0] + 0.05) / (pair[1] + 0.05), walker.currentNode.textContent]);
          }
          return found.sort((x, y) => x[0] - y[0]).slice(0, 3);
        }"""
    )
    assert worst[0][0] >= 4.5, worst


def test_thousands_of_bundles_play_smoothly(browser, tmp_path):
    publish(tmp_path, 12_500, 30, 2, ["fuel", "bus", "<b>"])
    report = write_report_page(tmp_path / "release", tmp_path / "report.html")
    assert report.bundles_drawn == report.bundles >= 5_000
    assert report.size == (tmp_path / "report.html").stat().st_size < MOST_BYTES
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(MEASURE.replace("NUM_SQUARES", str(report.bundles_drawn)))
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#canvas").scroll_into_view_if_needed()
    for view, last in (("density", "8"), ("area", "16")):
        page.locator("#view").select_option(view)
        page.evaluate("window.work.length = window.squares.length = 0")
        page.locator("#play").click()
        expect(page.locator("#time")).to_have_value(last)
        page.locator("#play").click()
        work, squares = page.evaluate("[window.work, window.squares]")
        assert len(work) >= 8
        assert statistics.median(work) < MOST_TIMES * statistics.median(squares)
    page.close()
