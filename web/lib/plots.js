// Bar charts by uPlot in the page's colours. They can be read with the pointer, with the arrow keys and as text.

import uPlot from "../vendor/uplot.js";
import { short } from "./words.js";

const LABEL = 64; // pixels for a label on the x axis
const dark = matchMedia("(prefers-color-scheme: dark)");
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

export class Bars {
  #host = null; #plot = null; #shown = null; #chosen = -1; #watch = new ResizeObserver(() => this.#fit());

  constructor(height = 180) {
    this.height = height;
    dark.addEventListener("change", () => this.#make());
  }

  /**
   * Show series of equal length in a figure. `tick` returns the label of a bar, `describe` its description, and
   * `summary` describes the whole chart. `marked` is the index of the highlighted bar, or -1.
   */
  show(host, shown) {
    const isOther = host !== this.#host || shown.series.length !== this.#shown?.series.length;
    this.#shown = shown;
    if (isOther) this.#attach(host);
    else {
      this.#plot?.setData(this.#data());
      this.#plot ?? this.#make();
    }
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
    this.#watch.observe(host);
    this.#make();
  }

  #make() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#host?.clientWidth) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), font: FONT, ticks: { show: false }, gap: 6 };
    const tick = (i) => this.#shown.tick(i), numbers = (_, at) => at.map(short);
    const { series } = this.#shown;
    const bars = series.map(({ colour: name, width }) => {
      const fill = colour(name);
      const of = (_, i) => (i === this.#shown.marked ? colour("--accent") : fill);
      const values = () => this.#shown.series[0].values.map(of);
      const disp = { fill: { unit: 3, values }, stroke: { unit: 3, values } }; // uPlot takes both or none
      const paths = uPlot.paths.bars({ size: [width, 40, 1], radius: 0.12, disp });
      return { fill, stroke: fill, width: 0, paths, points: { show: false } };
    });
    this.#plot = new uPlot({
      width: this.#host.clientWidth,
      height: this.height,
      padding: [8, 4, 0, 0],
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: () => [-0.5, this.#length() - 0.5] },
        y: { range: (_, __, most) => [0, Math.max(most * 1.05, 4)] },
      },
      axes: [
        { ...axis, size: 26, grid: { show: false }, splits: () => this.#ticks(), values: (_, at) => at.map(tick) },
        { ...axis, size: 40, grid: { stroke: colour("--line"), width: 1 }, incrs: wholeNumbers(), values: numbers },
      ],
      series: [{}, ...bars],
      hooks: {
        setCursor: [(plot) => this.#choose(plot.cursor.idx ?? -1)],
        drawClear: [(plot) => this.#shade(plot, colour("--tint"))],
      },
    }, this.#data(), this.#host);
  }

  #data() {
    const { series } = this.#shown;
    return [series[0].values.map((_, i) => i), ...series.map(({ values }) => values)];
  }

  #length() {
    return this.#shown.series[0].values.length;
  }

  #ticks() {
    const every = Math.max(1, Math.ceil((this.#length() * LABEL) / (this.#host.clientWidth - 44)));
    return Array.from({ length: Math.ceil(this.#length() / every) }, (_, i) => i * every);
  }

  #shade(plot, colour) {
    if (this.#chosen < 0) return;
    const [from, to] = [this.#chosen - 0.5, this.#chosen + 0.5].map((x) => plot.valToPos(x, "x", true));
    plot.ctx.fillStyle = colour;
    plot.ctx.fillRect(from, plot.bbox.top, to - from, plot.bbox.height);
  }

  #fit() {
    const width = this.#host.clientWidth;
    if (!this.#plot) this.#make();
    else if (width && width !== this.#plot.width) this.#plot.setSize({ width, height: this.height });
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
    const moves = { ArrowLeft: this.#chosen < 0 ? last : Math.max(this.#chosen - 1, 0), ArrowRight: this.#chosen + 1 };
    const index = { ...moves, Home: 0, End: last, Escape: -1 }[event.key];
    if (index === undefined) return;
    event.preventDefault();
    this.#choose(index);
  }

  /** Update the text below the chart. The summary changes too often to be announced. */
  #describe() {
    const { describe, summary } = this.#shown;
    const text = this.#chosen < 0 ? summary : describe(this.#chosen);
    const readout = this.#host.parentElement.querySelector(".readout");
    readout.setAttribute("aria-live", this.#chosen < 0 ? "off" : "polite");
    if (readout.textContent !== text) readout.textContent = text;
    this.#host.setAttribute("aria-label", `${summary} Use the arrow keys to read single bars.`);
  }
}

function wholeNumbers() {
  return Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
}
