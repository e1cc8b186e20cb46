// Bar charts in the page's colours: uPlot draws the bars, and the labels are text. A chart can be read with the
// pointer, with the arrow keys, and as text.

import uPlot from "../vendor/uplot.js";
import { short } from "./language.js";

const GUTTER = 44; // pixels for the labels of the y axis
const STEPS = 4; // at most so many lines above the axis
const dark = matchMedia("(prefers-color-scheme: dark)");
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";
const context = document.createElement("canvas").getContext("2d");

/** Return the width of a label in pixels. */
function measure(text) {
  context.font = FONT;
  return context.measureText(text).width;
}

export class Bars {
  #host = null; #plot = null; #shown = null; #chosen = -1; #watch = new ResizeObserver(() => this.#fit());
  #canvas = element("canvas-box"); #marks = element("marks"); #below = element("ticks");

  constructor() {
    dark.addEventListener("change", () => this.#make());
  }

  /**
   * Show series of equal length in a figure. `ticks` returns the labels of the x axis, `describe` the text of a bar,
   * and `summary` the text of the whole chart. `yTitle` and `xTitle` name the axes. `marked` is the index of the
   * highlighted bar. `earlier` is a series of the period before, drawn as a line. `choose` is called with a bar's
   * index when it is clicked.
   */
  show(host, shown) {
    const isOther = host !== this.#host || kind(shown) !== kind(this.#shown);
    this.#shown = { marked: -1, earlier: null, choose: null, ...shown };
    if (isOther) this.#attach(host);
    else if (this.#plot) {
      this.#plot.setData(this.#data());
      this.#label();
    } else this.#make();
    this.#describe();
  }

  #attach(host) {
    this.#watch.disconnect();
    this.#host = host;
    this.#chosen = -1;
    host.tabIndex = 0;
    host.setAttribute("role", "img");
    host.onkeydown = (event) => this.#key(event);
    host.onblur = host.onpointerleave = () => this.#choose(-1);
    host.onclick = () => this.#chosen >= 0 && this.#shown.choose?.(this.#chosen);
    host.replaceChildren(this.#canvas, this.#marks, this.#below);
    this.#watch.observe(host);
    this.#make();
  }

  #make() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#canvas.clientWidth) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const bars = this.#shown.series.map(({ colour: name, width }) => {
      const fill = colour(name);
      const of = (_, i) => (i === this.#shown.marked ? colour("--accent") : fill);
      const values = () => this.#shown.series[0].values.map(of);
      const disp = { fill: { unit: 3, values }, stroke: { unit: 3, values } }; // uPlot takes both or none
      const paths = uPlot.paths.bars({ size: [width, 40, 1], radius: 0.12, disp });
      return { fill, stroke: fill, width: 0, paths, points: { show: false } };
    });
    const line = { stroke: colour("--edge"), width: 1.5, dash: [4, 4], points: { show: false } };
    const grid = { stroke: colour("--line"), width: 1 };
    this.#plot = new uPlot({
      width: this.#canvas.clientWidth,
      height: this.#canvas.clientHeight,
      padding: [8, 0, 1, 0],
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: () => [-0.5, this.#length() - 0.5] },
        y: { range: () => [0, this.#splits().at(-1)] },
      },
      axes: [
        { show: false },
        { size: GUTTER, grid, ticks: { show: false }, splits: () => this.#splits(), values: (_, at) => at.map(() => "") },
      ],
      series: [{}, ...bars, ...(this.#shown.earlier ? [line] : [])],
      hooks: {
        setCursor: [(plot) => this.#choose(plot.cursor.idx ?? -1)],
        drawClear: [(plot) => this.#shade(plot, colour("--tint"))],
      },
    }, this.#data(), this.#canvas);
    this.#label();
  }

  #data() {
    const { series, earlier } = this.#shown;
    return [series[0].values.map((_, i) => i), ...series.map(({ values }) => values), ...(earlier ? [earlier] : [])];
  }

  #length() {
    return this.#shown.series[0].values.length;
  }

  /** Return the values at which lines are drawn: round whole numbers from 0 to above the greatest value. */
  #splits() {
    const most = Math.max(1, ...this.#data().slice(1).flat());
    const unit = 10 ** Math.floor(Math.log10(most / STEPS));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * unit).find((size) => most / size <= STEPS));
    return Array.from({ length: Math.max(1, Math.ceil(most / step)) + 1 }, (_, i) => i * step);
  }

  /** Write the labels of both axes. None overlaps another and none is cut at an edge. */
  #label() {
    const width = this.#canvas.clientWidth, inner = width - GUTTER, height = this.#canvas.clientHeight - 9;
    const splits = this.#splits();
    this.#marks.replaceChildren(...splits.map((value) => {
      const mark = element("mark", short(value));
      mark.style.top = `${8 + height * (1 - value / splits.at(-1))}px`;
      return mark;
    }));
    const { ticks, xTitle, yTitle } = this.#shown;
    const found = ticks(inner, measure);
    const row = (name, top) => {
      let end = -Infinity;
      return found.flatMap(({ at, [name]: text }) => {
        if (!text) return [];
        const half = measure(text) / 2, centre = GUTTER + ((at + 0.5) / this.#length()) * inner;
        const left = Math.max(0, Math.min(centre - half, width - 2 * half - 1));
        if (left < end + 6) return [];
        end = left + 2 * half;
        const label = element("tick", text);
        Object.assign(label.style, { left: `${left}px`, top: `${top}px` });
        return [label];
      });
    };
    this.#below.classList.toggle("single", !found.some(({ below }) => below));
    this.#below.replaceChildren(...row("text", 9), ...row("below", 25), element("x-title", xTitle));
    this.#marks.append(element("y-title", yTitle));
  }

  #shade(plot, colour) {
    if (this.#chosen < 0) return;
    const [from, to] = [this.#chosen - 0.5, this.#chosen + 0.5].map((x) => plot.valToPos(x, "x", true));
    plot.ctx.fillStyle = colour;
    plot.ctx.fillRect(from, plot.bbox.top, to - from, plot.bbox.height);
  }

  #fit() {
    const width = this.#canvas.clientWidth, height = this.#canvas.clientHeight;
    if (!this.#plot) this.#make();
    else if (width && (width !== this.#plot.width || height !== this.#plot.height)) {
      this.#plot.setSize({ width, height });
      this.#label();
    }
  }

  #choose(index) {
    const next = index < 0 ? -1 : Math.min(index, this.#length() - 1);
    if (next === this.#chosen) return;
    this.#chosen = next;
    this.#plot?.redraw(false);
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
    readout.setAttribute("aria-live", this.#chosen < 0 ? "off" : "polite");
    if (readout.textContent !== text) readout.textContent = text;
    this.#host.setAttribute("aria-label", `${summary} ${hint}`);
  }
}

const kind = (shown) => shown && `${shown.series.length} ${Boolean(shown.earlier)}`;

function element(name, text = "") {
  return Object.assign(document.createElement("div"), { className: name, textContent: text });
}
