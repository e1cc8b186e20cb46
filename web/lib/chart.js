// Bar charts in the colours of the page. A chart can be read with the pointer, with the arrow keys, and as text.

const GUTTER = 44; // pixels, at least, for the labels of the y axis
const STEPS = 4; // at most so many lines above the axis
const WIDEST = 64; // pixels of a bar
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";
const HTML = "http://www.w3.org/1999/xhtml", SVG = "http://www.w3.org/2000/svg";

/** Create an element. An <img name=createElementNS> of the page would hide the method of the document. */
function create(space, name, attributes = {}) {
  const element = Document.prototype.createElementNS.call(document, space, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const draw = (name, attributes) => create(SVG, name, attributes);

function box(name, text = "") {
  const made = create(HTML, "div", { class: name });
  made.textContent = text;
  return made;
}

const context = create(HTML, "canvas").getContext("2d");

/** Return the width of a label in pixels. */
function measure(text) {
  context.font = FONT;
  return context.measureText(text).width;
}

export class Bars {
  #host = null; #shown = null; #chosen = -1; #gutter = GUTTER; #watch = new ResizeObserver(() => this.#fit());
  #svg = draw("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
  #marks = box("marks"); #below = box("ticks");

  /**
   * Show series of equal length in a figure. A series has `values`, its `className`, and the `width` of a bar as a part
   * of its place. `ticks` returns the labels of the x axis, `describe` the text of a bar, and `summary` the text of the
   * whole chart. `yTitle` and `xTitle` name the axes, and `short` formats a label of the y axis. `marked` is the index
   * of the highlighted bar. `earlier` is a series of the period before, drawn as a line. `choose` is called with a
   * bar's index when it is clicked.
   */
  show(host, shown) {
    this.#shown = { marked: -1, earlier: null, choose: null, ...shown };
    if (host !== this.#host) this.#attach(host);
    this.#fit();
    this.#describe();
  }

  #attach(host) {
    const root = host.getRootNode();
    if (!root.adoptedStyleSheets.includes(SHEET)) root.adoptedStyleSheets.push(SHEET);
    this.#watch.disconnect();
    this.#host = host;
    this.#chosen = -1;
    host.tabIndex = 0;
    host.role = "img";
    host.onkeydown = (event) => this.#key(event);
    host.onblur = host.onpointerleave = () => this.#choose(-1);
    host.onpointermove = ({ clientX }) => {
      const { left, width } = this.#svg.getBoundingClientRect();
      this.#choose(Math.max(0, Math.floor(((clientX - left) / width) * this.#length())));
    };
    host.onclick = () => this.#chosen >= 0 && this.#shown.choose?.(this.#chosen);
    host.replaceChildren(this.#svg, this.#marks, this.#below);
    this.#watch.observe(host);
  }

  #fit() {
    this.#gutter = Math.max(GUTTER, ...this.#splits().map((value) => Math.ceil(measure(this.#shown.short(value))) + 8));
    this.#host.style.setProperty("--gutter", `${this.#gutter}px`);
    this.#draw();
    this.#label();
  }

  #length() { return this.#shown.series[0].values.length; }

  /** Return the values at which lines are drawn: round whole numbers from 0 to above the greatest value. */
  #splits() {
    const { series, earlier } = this.#shown;
    const most = Math.max(1, ...series.flatMap(({ values }) => values), ...(earlier ?? []));
    const unit = 10 ** Math.floor(Math.log10(most / STEPS));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * unit).find((size) => most / size <= STEPS));
    return Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step);
  }

  /** Draw in units of one bar and of a hundredth of the height. */
  #draw() {
    const { series, earlier, marked } = this.#shown, splits = this.#splits();
    const y = (value) => 100 - (100 * value) / splits.at(-1);
    const narrower = Math.min(1, (WIDEST * this.#length()) / (this.#host.clientWidth - this.#gutter));
    const path = (values, width) => values.map((value, i) => (value
      ? `M${i + (1 - width) / 2} 100V${y(value)}h${width}V100z` : "")).join("");
    const bars = series.flatMap(({ values, className, width }) => [
      draw("path", { class: className, d: path(values.map((value, i) => (i === marked ? 0 : value)), width * narrower) }),
      draw("path", { class: "marked", d: path(values.map((value, i) => (i === marked ? value : 0)), width * narrower) }),
    ]);
    const points = (earlier ?? []).flatMap((value, i) => (value === null ? [] : [`${i + 0.5} ${y(value)}`]));
    this.#svg.setAttribute("viewBox", `0 0 ${this.#length() || 1} 100`);
    this.#svg.replaceChildren(
      draw("path", { class: "grid", d: splits.map((value) => `M0 ${y(value)}H${this.#length()}`).join("") }),
      draw("rect", { class: "chosen", x: this.#chosen, y: 0, width: this.#chosen < 0 ? 0 : 1, height: 100 }),
      ...bars,
      draw("polyline", { class: "earlier", points: points.join() }),
    );
  }

  /** Write the labels of both axes. None overlaps another and none is cut at an edge. */
  #label() {
    const width = this.#host.clientWidth, inner = width - this.#gutter, splits = this.#splits();
    const { ticks, xTitle, yTitle, short } = this.#shown;
    if (inner <= 0) return;
    const found = ticks(inner, measure);
    const row = (name, top) => {
      let end = -Infinity;
      return found.flatMap(({ at, [name]: text }) => {
        if (!text) return [];
        const half = measure(text) / 2, centre = this.#gutter + ((at + 0.5) / this.#length()) * inner;
        const left = Math.max(0, Math.min(centre - half, width - 2 * half - 1));
        if (left < end + 6) return [];
        end = left + 2 * half;
        return [place(box("tick", text), { left: `${left}px`, top: `${top}px` })];
      });
    };
    this.#below.classList.toggle("single", !found.some(({ below }) => below));
    this.#below.replaceChildren(...row("text", 9), ...row("below", 25), box("x-title", xTitle));
    this.#marks.replaceChildren(
      ...splits.map((value) => place(box("mark", short(value)), { top: `${100 - (100 * value) / splits.at(-1)}%` })),
      box("y-title", yTitle),
    );
  }

  #choose(index) {
    const next = index < 0 ? -1 : Math.min(index, this.#length() - 1);
    if (next === this.#chosen) return;
    this.#chosen = next;
    this.#draw();
    this.#describe();
  }

  #key(event) {
    const last = this.#length() - 1;
    if (event.key === "Enter" && this.#chosen >= 0) this.#shown.choose?.(this.#chosen);
    const moves = { ArrowLeft: this.#chosen < 0 ? last : Math.max(this.#chosen - 1, 0), ArrowRight: this.#chosen + 1 };
    const index = { ...moves, Home: 0, End: last, Escape: -1 }[event.key];
    if (index === undefined) return;
    event.preventDefault();
    this.#choose(index);
  }

  /** Update the text below the chart. The summary changes too often to be announced. */
  #describe() {
    const { describe, summary, hint } = this.#shown;
    const text = this.#chosen < 0 ? summary : describe(this.#chosen);
    const readout = this.#host.parentElement.querySelector(".readout");
    readout.ariaLive = this.#chosen < 0 ? "off" : "polite";
    if (readout.textContent !== text) readout.textContent = text;
    this.#host.ariaLabel = `${summary} ${hint}`;
  }
}

function place(element, style) {
  Object.assign(element.style, style);
  return element;
}

/** The style of charts, which the first chart adds to its document or shadow tree if it is not there. */
export const SHEET = new CSSStyleSheet();
SHEET.replaceSync(`
.plot, figcaption {
  --c-line: var(--h-line, var(--line)); --c-edge: var(--h-edge, var(--edge)); --c-quiet: var(--h-quiet, var(--quiet));
  --c-bars: var(--h-bars, var(--views)); --c-darker: var(--h-darker, var(--visitors)); --c-accent: var(--h-accent, var(--accent));
}
.plot { position: relative; height: 264px; border-radius: 8px; font: 12px/16px system-ui, "DejaVu Sans", sans-serif; direction: ltr; overflow: hidden; color: var(--c-quiet); --below: 86px; }
.plot.low { height: 224px; }
.plot:has(.single) { --below: 70px; }
.plot > * { position: absolute; inset: auto 0 0; }
.plot svg, .marks { top: 26px; bottom: auto; height: calc(100% - var(--below)); }
.plot svg { left: var(--gutter); width: calc(100% - var(--gutter)); overflow: visible; }
.plot path, .plot polyline { vector-effect: non-scaling-stroke; }
.plot .grid { stroke: var(--c-line); }
.plot .chosen { fill: var(--h-tint, var(--tint)); }
.plot .views { fill: var(--c-bars); }
.plot .visitors { fill: var(--c-darker); }
.plot .marked { fill: var(--c-accent); }
.plot .earlier { fill: none; stroke: var(--c-edge); stroke-width: 1.5; stroke-dasharray: 4; }
.marks { width: calc(var(--gutter) - 6px); }
.ticks { height: calc(var(--below) - 26px); }
.plot > div > * { position: absolute; white-space: nowrap; font-variant-numeric: tabular-nums; }
.mark { right: 0; transform: translateY(-50%); }
.y-title { top: -26px; left: 0; }
.x-title { right: 0; bottom: 0; }
figure { margin: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-top: 4px; color: var(--c-quiet); font-size: 13px; }
.readout { min-height: 1.5em; margin-inline-start: auto; color: var(--h-ink, var(--ink)); font-variant-numeric: tabular-nums; }
@media (max-width: 600px) { .readout { flex-basis: 100%; } }
.key::before { content: ""; display: inline-block; width: 10px; height: 10px; margin-inline-end: 6px; border-radius: 2px; background: var(--c-bars); }
.darker::before { background: var(--c-darker); }
.accent::before { background: var(--c-accent); }
.line::before { height: 0; border-radius: 0; border-top: 2px dashed var(--c-edge); background: none; vertical-align: middle; }
`);
