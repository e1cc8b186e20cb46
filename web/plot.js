// A page's series as bars: views, and within them uniques. Arrow keys and the pointer read single bars.

import { count } from "./words.js";

const HEIGHT = 190, LEFT = 38, TOP = 8, BOTTOM = 22;
const LABEL = 64; // px that a label of the time axis takes
const STEPS = { hour: [1, 2, 3, 6, 12, 24, 48, 96, 168], day: [1, 2, 3, 5, 7, 10, 14, 20, 30, 61, 91] };

const svg = document.getElementById("series");
const readout = document.getElementById("readout");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });
const format = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
const DAY = format({ day: "numeric", month: "short" });
const WHOLE_DAY = format({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
const HOUR = format({ hour: "2-digit", minute: "2-digit" });

let items = [], interval = "day", chosen = -1, summary = "";

/** Draw a series. `says` is read while no bar is chosen. */
export function draw(series, by, says) {
  if (by !== interval || series[0]?.time !== items[0]?.time) chosen = -1;
  [items, interval, summary] = [series, by, says];
  render();
}

/** Name a bucket's time in full. */
export function named(item) {
  const time = new Date(item.time);
  return WHOLE_DAY.format(time) + (interval === "hour" ? `, ${HOUR.format(time)} UTC` : "");
}

function render() {
  const width = svg.clientWidth;
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const [step, top] = scale(Math.max(...items.map((item) => item.views), 1));
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const slot = (width - LEFT) / Math.max(items.length, 1);
  const bar = slot > 3 ? Math.min(slot - Math.max(1, slot * 0.2), 42) : Math.max(slot, 0.8);
  const x = (index) => LEFT + index * slot + (slot - bar) / 2;
  const parts = [];
  for (let value = 0; value <= top; value += step) {
    parts.push(element("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
    parts.push(element("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  const every = STEPS[interval].find((n) => n * slot >= LABEL) ?? items.length;
  items.forEach((item, index) => {
    const time = new Date(item.time);
    const place = interval === "hour" ? index + new Date(items[0].time).getUTCHours() : index;
    if (place % every === 0 && LEFT + (index + 0.5) * slot < width - LABEL / 3) {
      const midnight = interval === "day" || time.getUTCHours() === 0;
      const middle = Math.max(LEFT + (index + 0.5) * slot, LEFT + 16);
      const text = (midnight ? DAY : HOUR).format(time);
      parts.push(element("text", { x: middle, y: HEIGHT - 5, "text-anchor": "middle" }, text));
    }
    if (index === chosen) {
      parts.push(element("rect", { class: "chosen", x: x(index) - 1, y: TOP, width: bar + 2, height: y(0) - TOP }));
    }
    for (const of of ["views", "uniques"]) {
      if (!item[of]) continue;
      const inset = of === "uniques" ? bar * 0.2 : 0;
      const high = Math.max(y(0) - y(item[of]), 1.5);
      const shape = { x: x(index) + inset, y: y(0) - high, width: bar - 2 * inset, height: high };
      parts.push(element("rect", { class: of, rx: Math.min(2, bar / 4), ...shape }));
    }
  });
  svg.replaceChildren(...parts);
  const item = items[chosen];
  const text = item
    ? `${named(item)}: ${count.format(item.views)} views, ${count.format(item.uniques)} uniques`
    : summary;
  readout.setAttribute("aria-live", item ? "polite" : "off"); // sums change too often to be read out
  if (readout.textContent !== text) readout.textContent = text;
  svg.setAttribute("aria-label", `Views by ${interval}. ${summary} Arrow keys read single bars.`);
}

/** Answer a round step and the top of an axis of at most five steps that holds `most`. */
function scale(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = Math.max(1, [0.2, 0.5, 1, 2].map((n) => n * power).find((n) => most <= 5 * n));
  return [step, Math.ceil(most / step) * step];
}

function short(value) {
  return value < 10_000 ? count.format(value) : COMPACT.format(value);
}

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function choose(index) {
  const next = index < 0 ? -1 : Math.min(index, items.length - 1);
  if (next === chosen) return;
  chosen = next;
  render();
}

svg.addEventListener("pointermove", (event) => {
  const place = (event.offsetX - LEFT) / (svg.clientWidth - LEFT);
  choose(place < 0 ? -1 : Math.floor(place * items.length));
});
svg.addEventListener("pointerleave", () => choose(-1));
svg.addEventListener("blur", () => choose(-1));
svg.addEventListener("keydown", (event) => {
  const last = items.length - 1;
  const moves = { ArrowLeft: chosen < 0 ? last : Math.max(chosen - 1, 0), ArrowRight: chosen + 1 };
  const index = { ...moves, Home: 0, End: last, Escape: -1 }[event.key];
  if (index === undefined) return;
  event.preventDefault();
  choose(index);
});
new ResizeObserver(render).observe(svg);
